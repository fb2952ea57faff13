#include "nft/netlink/monitor.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "nft/base/status.h"
#include "nft/netlink/attributes.h"
#include "nft/netlink/messages.h"

namespace svcmap::nft {
namespace {

constexpr size_t kReceiveBuffer = 4 * 1024 * 1024;
constexpr int kMaxDrained = 100'000;  // Maximum number of datagrams discarded by DrainQueue.
// Number of this process's port ids to remember. Only notifications that are still queued refer to
// closed ports, so few old ports are needed.
constexpr size_t kMaxOwnPorts = 8;

// Compares generation ids, which may wrap around.
bool AtLeast(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) >= 0; }

}  // namespace

absl::StatusOr<std::unique_ptr<Monitor>> Monitor::Start(TableSpecs tables, OnChange on_change,
                                                        MonitorOptions options) {
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.ok()) return ErrnoStatus(errno, "create eventfd");
  absl::StatusOr<Session> questions = Session::Open({.faults = options.faults});
  if (!questions.ok()) return questions.status();
  std::unique_ptr<Monitor> monitor(new Monitor(std::move(tables), std::move(on_change), options,
                                               *std::move(questions), std::move(wake)));
  if (absl::Status status = monitor->Reopen(); !status.ok()) return status;
  const absl::StatusOr<uint32_t> generation = monitor->requests_.SettledGeneration();
  if (!generation.ok()) return generation.status();
  monitor->reported_ = *generation;
  monitor->last_well_ = Clock::now().time_since_epoch().count();
  monitor->thread_ = std::thread([m = monitor.get()] { m->Run(); });
  return monitor;
}

Monitor::Monitor(TableSpecs tables, OnChange on_change, MonitorOptions options, Session questions,
                 UniqueFd wake)
    : options_(options),
      on_change_(std::move(on_change)),
      wake_(std::move(wake)),
      reader_(std::move(tables)),
      requests_(std::move(questions)) {}

Monitor::~Monitor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
}

void Monitor::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void Monitor::AddOwnPort(uint32_t port_id) {
  const std::lock_guard lock(mutex_);
  own_ports_.push_back(port_id);
  if (own_ports_.size() > kMaxOwnPorts) own_ports_.erase(own_ports_.begin());
}

bool Monitor::IsOwn(uint32_t port_id) {
  const std::lock_guard lock(mutex_);
  return std::find(own_ports_.begin(), own_ports_.end(), port_id) != own_ports_.end();
}

void Monitor::Pause() {
  const std::lock_guard lock(mutex_);
  listening_ = false;
  gap_open_ = true;
  if (socket_) socket_->LeaveGroup(NFNLGRP_NFTABLES);
}

void Monitor::Resume() {
  const std::lock_guard lock(mutex_);
  listening_ = true;
  if (socket_ && !socket_->JoinGroup(NFNLGRP_NFTABLES).ok())
    broken_ = "cannot join the nf_tables notification group";
}

void Monitor::CloseGap(uint32_t before, uint32_t after, bool explained) {
  {
    const std::lock_guard lock(mutex_);
    gap_open_ = false;
    gaps_.push_back({before, after, explained});
  }
  Wake();
}

void Monitor::CloseUnknownGap() {
  {
    const std::lock_guard lock(mutex_);
    gap_open_ = false;
    broken_ = "changes during a large batch are unknown";
  }
  Wake();
}

bool Monitor::alive() const {
  const Clock::time_point well{Clock::duration(last_well_)};
  return Clock::now() - well < 2 * options_.patience + options_.check_interval;
}

bool Monitor::ReceivedUpTo(uint32_t generation) const { return AtLeast(reported_, generation); }

void Monitor::Run() {
  next_check_ = Clock::now() + options_.check_interval;
  for (;;) {
    // Without a socket, poll waits only for `wake_` and the timeout.
    pollfd waiting[] = {{wake_.get(), POLLIN, 0}, {socket_ ? socket_->fd() : -1, POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_check_ - Clock::now());
    poll(waiting, 2, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t size = read(wake_.get(), &wakes, sizeof(wakes));
    std::string broken;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      broken.swap(broken_);
      if (!broken.empty()) socket_.reset();
    }
    if (!broken.empty()) StartOver(broken);
    Listen();
    CrossGaps();
    if (Clock::now() >= next_check_) Check();
  }
}

// Reads one datagram per call, so that a burst of notifications does not delay other work.
void Monitor::Listen() {
  if (!socket_) return;
  const auto datagram = socket_->Receive(std::chrono::milliseconds(0));
  received_all_ = datagram.ok() && datagram->empty();
  if (datagram.ok()) {
    Read(*datagram);
  } else if (absl::IsResourceExhausted(datagram.status())) {
    DrainQueue();
    StartOver("notifications were lost");
  } else {  // Does not retry immediately, because the error may persist.
    CloseSocket();
    start_over_ = "notification socket failed: " + std::string(datagram.status().message());
    next_check_ = std::min(next_check_, last_start_over_ + options_.check_interval);
  }
}

void Monitor::CloseSocket() {
  const std::lock_guard lock(mutex_);
  socket_.reset();
}

void Monitor::Read(std::span<const uint8_t> datagram) {
  for (const nlmsghdr* message : Messages(datagram)) {
    if (message->nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES ||
        mnl_nlmsg_get_payload_len(message) < sizeof(nfgenmsg)) {
      continue;
    }
    if ((message->nlmsg_type & 0xff) == NFT_MSG_NEWGEN) {
      EndTransaction(message);
    } else if (!IsOwn(message->nlmsg_pid)) {
      reader_.Read(message);
    }
  }
}

void Monitor::EndTransaction(const nlmsghdr* generation) {
  receives_nothing_ = false;
  if (const std::optional<ForeignChange> change = reader_.Take(generation)) on_change_(*change);
  const std::optional<uint32_t> id =
      ReadNumber(AttributeTable(generation, sizeof(nfgenmsg))[NFTA_GEN_ID]);
  if (!id) return;
  CrossGaps();
  if (ReceivedUpTo(*id)) return;  // The notification was sent before the monitor was restarted.
  if (*id != reported_ + 1) ReportLoss("notifications of commits by other processes are missing");
  reported_ = *id;
}

// Processes commits that were made while the monitor was paused, after all earlier notifications
// have arrived.
void Monitor::CrossGaps() {
  for (;;) {
    std::optional<Gap> gap;
    {
      const std::lock_guard lock(mutex_);
      if (gaps_.empty() || !ReceivedUpTo(gaps_.front().before)) return;
      gap = gaps_.front();
      gaps_.pop_front();
    }
    if (!gap->explained) ReportLoss("another process committed during a large batch");
    if (!ReceivedUpTo(gap->after)) reported_ = gap->after;
  }
}

void Monitor::ReportLoss(const std::string& text) {
  ForeignChange change;
  change.lost = true;
  change.text = text;
  on_change_(change);
}

// Waits until no commit is in progress, and reports a ForeignChange with `lost` set, which covers
// all changes so far.
void Monitor::StartOver(const std::string& text) {
  start_over_ = text;
  last_start_over_ = Clock::now();
  reader_.Forget();
  if (!socket_ && !Reopen().ok()) return;
  const absl::StatusOr<uint32_t> generation = requests_.SettledGeneration();
  if (!generation.ok()) return;
  start_over_.reset();
  awaited_.reset();
  ReportLoss(text);
  if (!ReceivedUpTo(*generation)) reported_ = *generation;
}

absl::Status Monitor::Reopen() {
  absl::StatusOr<Socket> socket = Socket::Open(NETLINK_NETFILTER, options_.faults);
  if (!socket.ok()) return socket.status();
  socket->RequestReceiveBuffer(kReceiveBuffer);
  const std::lock_guard lock(mutex_);
  if (listening_) {
    if (absl::Status joined = socket->JoinGroup(NFNLGRP_NFTABLES); !joined.ok()) return joined;
  }
  socket_ = *std::move(socket);
  return absl::OkStatus();
}

// Discards all queued notifications, because the kernel drops notifications after an overflow until
// the queue is empty.
void Monitor::DrainQueue() {
  for (int i = 0; i < kMaxDrained; ++i) {
    const auto datagram = socket_->Receive(std::chrono::milliseconds(0));
    if (datagram.ok() ? datagram->empty() : !absl::IsResourceExhausted(datagram.status())) return;
  }
}

// Detects failures for which the kernel sends no message.
void Monitor::Check() {
  next_check_ = Clock::now() + options_.check_interval;
  if (start_over_) StartOver(std::string(*start_over_));
  if (start_over_) return;
  bool gap_open;
  {
    const std::lock_guard lock(mutex_);
    gap_open = gap_open_;
  }
  if (awaited_ && ReceivedUpTo(*awaited_)) {
    awaited_.reset();
    IsWell();
  }
  if (gap_open) return IsWell();
  if (awaited_) {
    if (Clock::now() - awaited_since_ < options_.patience || !received_all_) return;
    receives_nothing_ = true;
    CloseSocket();
    return StartOver("no notification received for the latest commits");
  }
  const absl::StatusOr<uint32_t> generation = requests_.Generation();
  if (!generation.ok()) return;
  if (ReceivedUpTo(*generation)) return IsWell();
  awaited_ = *generation;
  awaited_since_ = Clock::now();
}

void Monitor::IsWell() {
  if (!receives_nothing_) last_well_ = Clock::now().time_since_epoch().count();
}

}  // namespace svcmap::nft
