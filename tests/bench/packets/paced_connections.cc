#include "tests/bench/packets/paced_connections.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "nft/base/status.h"

namespace svcmap::bench {
namespace {

constexpr std::chrono::milliseconds kPollInterval{2};

bool HasError(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacedConnections>> PacedConnections::Start(PacketWorld& world,
                                                                          const FlowTarget& target,
                                                                          int per_second) {
  if (absl::Status forgot = world.ForgetFlows(); !forgot.ok()) return forgot;
  std::unique_ptr<PacedConnections> paced(new PacedConnections(world, target, per_second));
  paced->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!paced->epoll_.ok()) return ErrnoStatus(errno, "epoll of paced connections");
  // Start the thread in the client's network namespace, because a thread inherits the namespace of
  // its creator.
  world.client().Run([raw = paced.get()] { raw->thread_ = std::thread([raw] { raw->Run(); }); });
  return paced;
}

PacedConnections::~PacedConnections() { Stop(); }

bool PacedConnections::AwaitConnected(Clock::time_point after, std::chrono::seconds limit) const {
  const Clock::time_point deadline = Clock::now() + limit;
  while (newest_connected_ <= after.time_since_epoch().count()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

void PacedConnections::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void PacedConnections::Run() {
  PinThread(world_.cpus().client);
  PreferThread();
  // Open overdue connections too. The latency of an overdue connection is measured from the
  // scheduled time.
  for (Clock::time_point due = Clock::now(); !stop_; due += every_) {
    AwaitAnswers(due);
    Connect(due);
    GiveUp(Clock::now() - kFlowPatience);
  }
  while (oldest_ < flows_.size()) {
    AwaitAnswers(Clock::now() + std::chrono::milliseconds(1));
    GiveUp(Clock::now() - kFlowPatience);
  }
}

void PacedConnections::Connect(Clock::time_point due) {
  Flow& flow = flows_.emplace_back();
  flow.due = due;
  const testing::SocketAddress& source = world_.NextSource();
  flow.fd = UniqueFd(::socket(source.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(flow.fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const linger reset = {1, 0};
  ::setsockopt(flow.fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  epoll_event event = {};
  event.events = EPOLLOUT;
  event.data.u64 = flows_.size() - 1;
  const testing::SocketAddress& destination = target_.destination;
  if (::bind(flow.fd.get(), source.get(), source.size()) != 0 ||
      (::connect(flow.fd.get(), destination.get(), destination.size()) != 0 &&
       errno != EINPROGRESS) ||
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, flow.fd.get(), &event) != 0) {
    flow.fd.Close();
  }
}

void PacedConnections::AwaitAnswers(Clock::time_point until) {
  do {
    const auto left =
        std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(until - Clock::now()));
    const timespec wait = {static_cast<time_t>(left.count() / 1'000'000'000),
                           static_cast<long>(left.count() % 1'000'000'000)};
    epoll_event events[64];
    const int count = ::epoll_pwait2(epoll_.get(), events, 64, &wait, nullptr);
    const Clock::time_point now = Clock::now();
    for (int i = 0; i < count; ++i) {
      Flow& flow = flows_[events[i].data.u64];
      if (!HasError(flow.fd.get())) {
        flow.microseconds = std::chrono::duration<double, std::micro>(now - flow.due).count();
        newest_connected_ =
            std::max<Clock::rep>(newest_connected_, flow.due.time_since_epoch().count());
      }
      flow.fd.Close();
    }
  } while (Clock::now() < until);
}

void PacedConnections::GiveUp(Clock::time_point due_before) {
  for (; oldest_ < flows_.size(); ++oldest_) {
    Flow& flow = flows_[oldest_];
    if (flow.fd.ok() && flow.due >= due_before) return;
    flow.fd.Close();
  }
}

Latencies PacedConnections::Between(Clock::time_point from, Clock::time_point to) const {
  Latencies latencies;
  for (const Flow& flow : flows_) {
    if (flow.due < from || flow.due >= to) continue;
    if (flow.microseconds < 0) {
      ++latencies.failed;
    } else {
      latencies.microseconds.push_back(flow.microseconds);
    }
  }
  return latencies;
}

}  // namespace svcmap::bench
