#include "proxy/conntrack/cleaner.h"

#include <algorithm>
#include <utility>

namespace svcmap::proxy {
namespace {

using Clock = std::chrono::steady_clock;

// Number of stale flows per protocol and family to collect before a deletion.
constexpr size_t kChunk = 4096;

}  // namespace

Cleaner::Cleaner(nft::FlowTable& table, CleanerOptions options)
    : table_(table), options_(std::move(options)) {}

Cleaner::~Cleaner() { Stop(); }

void Cleaner::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Cleaner::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  commit_ended_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Cleaner::CommitScope::CommitScope(Cleaner* cleaner) : cleaner_(cleaner) {
  if (cleaner_ == nullptr) return;
  const std::lock_guard lock(cleaner_->mutex_);
  ++cleaner_->commits_started_;
}

Cleaner::CommitScope::~CommitScope() {
  if (cleaner_ == nullptr) return;
  {
    const std::lock_guard lock(cleaner_->mutex_);
    ++cleaner_->commits_ended_;
  }
  cleaner_->commit_ended_.notify_one();
}

void Cleaner::Update(std::vector<std::pair<std::string, UdpPorts>> services,
                     std::vector<std::pair<std::string, TcpEndpoints>> tcp) {
  bool due = false;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [key, ports] : services) book_.Update(key, std::move(ports));
    const bool waiting = tcp_book_.due_at().has_value();
    const auto now = Clock::now();
    for (auto& [key, endpoints] : tcp) tcp_book_.Update(key, std::move(endpoints), now);
    due = book_.due() || (!waiting && tcp_book_.due_at());
  }
  if (due) wake_.notify_one();  // Commits that make no flow stale do not wake the thread.
}

void Cleaner::StateIsComplete() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(complete_, true)) return;
  }
  wake_.notify_one();
}

void Cleaner::TablesRepaired() {
  {
    const std::lock_guard lock(mutex_);
    book_.MakeAllDue();
  }
  wake_.notify_one();
}

CleanerStatus Cleaner::status() const {
  const std::lock_guard lock(mutex_);
  CleanerStatus status = status_;
  status.services = book_.services();
  return status;
}

std::optional<Clock::time_point> Cleaner::WorkDueAt() const {
  std::optional<Clock::time_point> at;
  for (const Repeat& repeat : repeats_) at = at ? std::min(*at, repeat.at) : repeat.at;
  if (!complete_) return at;
  if (book_.due()) return Clock::time_point::min();
  if (const auto gone_at = tcp_book_.due_at()) at = at ? std::min(*at, *gone_at) : *gone_at;
  return at;
}

void Cleaner::AwaitWork(std::unique_lock<std::mutex>& lock) {
  while (!stopping_) {
    const auto due_at = WorkDueAt();
    if (!due_at) {
      wake_.wait(lock);
    } else if (*due_at > Clock::now()) {
      wake_.wait_until(lock, *due_at);
    } else {
      return;
    }
  }
}

std::chrono::milliseconds Cleaner::TakeRepeats() {
  const bool has_first_scans = book_.due();
  std::chrono::milliseconds delay = options_.repeat;
  std::erase_if(repeats_, [&, now = Clock::now()](const Repeat& repeat) {
    if (repeat.at > now) return false;
    book_.Return(repeat.round);
    if (!has_first_scans) delay = std::max(delay, 2 * repeat.delay);
    return true;
  });
  return std::min(delay, std::max(options_.repeat, options_.last_retry));
}

void Cleaner::Run() {
  std::unique_lock lock(mutex_);
  const auto stopping = [this] { return stopping_.load(); };
  for (;;) {
    AwaitWork(lock);
    next_ = std::max(next_, Clock::now() + options_.settle);
    if (wake_.wait_until(lock, next_, stopping)) return;

    const std::chrono::milliseconds repeat = TakeRepeats();
    UdpBook::Round round = book_.Take();
    const TcpBook::Round tcp = tcp_book_.Take(Clock::now());
    // A repeated round has no Services if they have no flows left. Endpoints may have returned.
    if (round.services() == 0 && tcp.services() == 0) continue;
    const uint64_t forgotten_tcp = tcp_book_.TakeForgotten();
    lock.unlock();
    StaleFlows flows = round.MakeStaleFlows();
    Cleanup cleanup = Clean(round, flows, tcp);
    cleanup.forgotten_tcp = forgotten_tcp;
    lock.lock();
    if (stopping_) return;
    Settle(round, flows, tcp, cleanup, repeat);
    lock.unlock();
    if (options_.on_round) options_.on_round(cleanup);
    lock.lock();
  }
}

void Cleaner::KeepStale(const UdpBook::Round& round, const TcpBook::Round& tcp,
                        nft::TransportProtocol protocol, std::vector<nft::Flow>& flows) {
  std::unique_lock lock(mutex_);
  if (flows.empty()) return;
  commit_ended_.wait(
      lock, [this, started = commits_started_] { return commits_ended_ >= started || stopping_; });
  if (stopping_) {
    flows.clear();
  } else if (protocol == nft::TransportProtocol::kTcp) {
    std::erase_if(flows, [&](const nft::Flow& flow) { return !tcp_book_.IsStillStale(tcp, flow); });
  } else if (book_.ChangedSince(round)) {
    UdpBook::Round now = book_.Again(round);
    StaleFlows stale = now.MakeStaleFlows();
    std::erase_if(flows, [&](const nft::Flow& flow) { return !stale.IsStale(flow); });
  }
}

Cleanup Cleaner::Clean(const UdpBook::Round& round, StaleFlows& flows, const TcpBook::Round& tcp) {
  const auto start = Clock::now();
  Cleanup cleanup{.services = round.services(), .tcp_services = tcp.services()};
  std::vector<nft::FlowKind> kinds;
  for (const Family family : kFamilies) {
    if (flows.HasFamily(family)) kinds.push_back({nft::TransportProtocol::kUdp, family});
    if (tcp.HasFamily(family)) kinds.push_back({nft::TransportProtocol::kTcp, family});
  }
  std::array<std::vector<nft::Flow>, nft::kFlowKinds> stale;
  // The listing of flows is paused during the deletion. A paused listing holds no resources in the
  // kernel and resumes where it stopped.
  const auto delete_stale = [&](const nft::FlowKind& kind) {
    std::vector<nft::Flow>& chunk = stale[Index(kind)];
    const bool is_tcp = kind.protocol == nft::TransportProtocol::kTcp;
    KeepStale(round, tcp, kind.protocol, chunk);
    const nft::FlowTable::Deletion deletion = table_.Delete(chunk);
    (is_tcp ? cleanup.deleted_tcp : cleanup.deleted)[Index(kind.family)] += deletion.deleted;
    cleanup.gone += deletion.gone;
    cleanup.error.Update(deletion.status);
    chunk.clear();
    return deletion.status.ok();
  };
  const auto listing = table_.ForEach(kinds, [&](const nft::Flow& flow) {
    if (stopping_) return false;
    const nft::FlowKind kind = flow.kind();
    const bool is_tcp = kind.protocol == nft::TransportProtocol::kTcp;
    if (!(is_tcp ? tcp.IsStale(flow) : flows.IsStale(flow))) return true;
    std::vector<nft::Flow>& chunk = stale[Index(kind)];
    chunk.push_back(flow);
    return chunk.size() < kChunk || delete_stale(kind);
  });
  cleanup.error.Update(listing.status());
  if (listing.ok()) cleanup.entries = listing->entries;
  for (const nft::FlowKind& kind : kinds) {
    if (!stopping_ && cleanup.error.ok()) delete_stale(kind);
  }
  cleanup.complete = cleanup.error.ok() && listing->complete;
  cleanup.duration = Clock::now() - start;
  return cleanup;
}

void Cleaner::Settle(const UdpBook::Round& round, const StaleFlows& flows,
                     const TcpBook::Round& tcp, const Cleanup& cleanup,
                     std::chrono::milliseconds repeat) {
  auto rest = std::chrono::duration_cast<Clock::duration>(cleanup.duration * options_.rest_factor);
  if (cleanup.complete) {
    backoff_.Success();
    book_.Finish(round, flows);
    tcp_book_.Finish(tcp);
    if (cleanup.deleted[0] + cleanup.deleted[1] > 0) {
      repeats_.push_back({round, repeat, Clock::now() + repeat});
    }
  } else {
    rest = std::max<Clock::duration>(rest, backoff_.Failure());
    book_.Return(round);
    tcp_book_.Return(tcp);
  }
  next_ = Clock::now() + rest;
  ++status_.rounds;
  status_.failures += cleanup.error.ok() ? 0 : 1;
  status_.entries += cleanup.entries;
  status_.gone += cleanup.gone;
  for (size_t i = 0; i < cleanup.deleted.size(); ++i) {
    status_.deleted[i] += cleanup.deleted[i];
    status_.deleted_tcp[i] += cleanup.deleted_tcp[i];
  }
  status_.last = cleanup;
}

}  // namespace svcmap::proxy
