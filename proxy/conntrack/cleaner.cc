#include "proxy/conntrack/cleaner.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

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
                     std::vector<std::pair<std::string, TcpEndpoints>> tcp,
                     const HandshakeChanges& handshakes) {
  bool due = false;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [key, ports] : services) book_.Update(key, std::move(ports));
    const bool waiting = tcp_book_.due_at().has_value();
    const auto now = Clock::now();
    for (auto& [key, endpoints] : tcp) tcp_book_.Update(key, std::move(endpoints), now);
    handshake_book_.Update(handshakes, now);
    due = book_.due() || (!waiting && tcp_book_.due_at()) || handshakes.any;
  }
  if (due) wake_.notify_one();  // Commits that make no flow stale do not wake the thread.
}

void Cleaner::StateIsComplete() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(complete_, true)) return;
    handshake_book_.Check();
  }
  wake_.notify_one();
}

void Cleaner::TablesRepaired() {
  {
    const std::lock_guard lock(mutex_);
    book_.MakeAllDue();
    handshake_book_.Check();
  }
  wake_.notify_one();
}

void Cleaner::FindStaleHandshakesWith(StaleHandshakesFn find) {
  {
    const std::lock_guard find_lock(find_mutex_);
    const std::lock_guard lock(mutex_);
    has_find_ = find != nullptr;
    find_ = std::move(find);
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
  const auto handshakes_at = has_find_ ? handshake_book_.due_at() : std::nullopt;
  for (const auto& due_at : {tcp_book_.due_at(), handshakes_at}) {
    if (due_at) at = std::min(at.value_or(*due_at), *due_at);
  }
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
    HandshakeBook::Round handshakes;
    if (complete_ && has_find_) handshakes = handshake_book_.Take(Clock::now());
    // A repeated round has no Services if they have no flows left. Endpoints may have returned.
    if (round.services() == 0 && tcp.services() == 0 && !handshakes.active()) continue;
    const uint64_t forgotten_tcp = tcp_book_.TakeForgotten();
    lock.unlock();
    StaleFlows flows = round.MakeStaleFlows();
    Cleanup cleanup = Clean(round, flows, tcp, handshakes);
    cleanup.forgotten_tcp = forgotten_tcp;
    lock.lock();
    if (stopping_) return;
    Settle(round, flows, tcp, std::move(handshakes), cleanup, repeat);
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

bool Cleaner::Delete(std::span<const nft::Flow> flows, uint64_t& deleted, Cleanup& cleanup) {
  if (flows.empty()) return true;
  const nft::FlowTable::Deletion deletion = table_.Delete(flows);
  deleted += deletion.deleted;
  cleanup.gone += deletion.gone;
  cleanup.error.Update(deletion.status);
  return deletion.status.ok();
}

std::vector<ServiceHash> Cleaner::KeepStaleHandshakes(std::vector<nft::Flow>& flows) {
  std::vector<std::optional<ServiceHash>> stale(flows.size());
  {
    const std::lock_guard lock(find_mutex_);
    if (find_ && !flows.empty()) stale = find_(flows);
  }
  std::vector<ServiceHash> services;
  for (size_t i = 0; i < flows.size(); ++i) {
    if (!stale[i]) continue;
    flows[services.size()] = flows[i];
    services.push_back(*stale[i]);
  }
  flows.resize(services.size());
  return services;
}

void Cleaner::SortHandshakes(std::vector<nft::Flow>& flows, HandshakeBook::Round& round,
                             Cleanup& cleanup) {
  const std::vector<ServiceHash> services = KeepStaleHandshakes(flows);
  std::array<std::vector<nft::Flow>, 2> reused;
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    for (size_t i = 0; i < flows.size(); ++i) {
      if (handshake_book_.IsReused(flows[i], services[i], now)) {
        reused[Index(flows[i].family())].push_back(flows[i]);
      } else {
        round.Record(flows[i], now);
      }
    }
  }
  for (const Family family : kFamilies) {
    Delete(reused[Index(family)], cleanup.deleted_handshakes[Index(family)], cleanup);
  }
  flows.clear();
}

Cleanup Cleaner::Clean(const UdpBook::Round& round, StaleFlows& flows, const TcpBook::Round& tcp,
                       HandshakeBook::Round& handshakes) {
  const auto start = Clock::now();
  Cleanup cleanup{.services = round.services(),
                  .tcp_services = tcp.services(),
                  .handshakes = handshakes.active()};
  std::vector<nft::FlowKind> kinds;
  for (const Family family : kFamilies) {
    const auto add = [&](nft::TransportProtocol protocol, bool covered) {
      if (covered) kinds.push_back({protocol, family});
    };
    add(nft::TransportProtocol::kUdp, flows.HasFamily(family));
    add(nft::TransportProtocol::kTcp, handshakes.active() || tcp.HasFamily(family));
    add(nft::TransportProtocol::kSctp, handshakes.active());
  }
  const bool only_handshakes = round.services() == 0 && tcp.services() == 0;
  absl::flat_hash_set<uint32_t> old;  // Ids of the recorded handshakes that are still stale.
  for (size_t begin = 0; begin < handshakes.old().size(); begin += kChunk) {
    const auto chunk = std::span(handshakes.old()).subspan(begin);
    std::vector<nft::Flow> still(chunk.begin(), chunk.begin() + std::min(kChunk, chunk.size()));
    KeepStaleHandshakes(still);
    for (const nft::Flow& flow : still) old.insert(flow.id);
  }
  std::array<std::vector<nft::Flow>, nft::kFlowKinds> stale;
  // The dump of flows is paused during the deletion. A paused dump holds no resources in the kernel
  // and continues at the same position.
  const auto delete_stale = [&](const nft::FlowKind& kind) {
    std::vector<nft::Flow>& chunk = stale[Index(kind)];
    const bool is_tcp = kind.protocol == nft::TransportProtocol::kTcp;
    KeepStale(round, tcp, kind.protocol, chunk);
    auto& deleted = is_tcp ? cleanup.deleted_tcp : cleanup.deleted;
    const bool done = Delete(chunk, deleted[Index(kind.family)], cleanup);
    chunk.clear();
    return done;
  };
  std::vector<nft::Flow> unreplied;
  // An old handshake is deleted immediately, because its endpoint could reply at any time.
  const auto add_handshake = [&](const nft::Flow& flow) {
    if (old.contains(flow.id) && handshakes.IsOld(flow)) {
      return Delete({&flow, 1}, cleanup.deleted_handshakes[Index(flow.family())], cleanup);
    }
    unreplied.push_back(flow);
    if (unreplied.size() == kChunk) SortHandshakes(unreplied, handshakes, cleanup);
    return cleanup.error.ok();
  };
  const uint64_t max_entries =
      only_handshakes ? options_.max_handshake_entries : nft::FlowTable::kAllEntries;
  const auto listing = table_.ForEach(kinds, max_entries, [&](const nft::Flow& flow) {
    if (stopping_) return false;
    const nft::FlowKind kind = flow.kind();
    const bool is_udp = kind.protocol == nft::TransportProtocol::kUdp;
    const bool is_tcp = kind.protocol == nft::TransportProtocol::kTcp;
    if (!(is_udp ? flows.IsStale(flow) : is_tcp && tcp.IsStale(flow))) {
      return !flow.unreplied || !handshakes.active() || add_handshake(flow);
    }
    std::vector<nft::Flow>& chunk = stale[Index(kind)];
    chunk.push_back(flow);
    return chunk.size() < kChunk || delete_stale(kind);
  });
  cleanup.error.Update(listing.status());
  if (listing.ok()) cleanup.entries = listing->entries;
  for (const nft::FlowKind& kind : kinds) {
    if (!stopping_ && cleanup.error.ok()) delete_stale(kind);
  }
  if (!stopping_ && cleanup.error.ok()) SortHandshakes(unreplied, handshakes, cleanup);
  cleanup.complete = cleanup.error.ok() && listing->complete;
  cleanup.duration = Clock::now() - start;
  return cleanup;
}

void Cleaner::Settle(const UdpBook::Round& round, const StaleFlows& flows,
                     const TcpBook::Round& tcp, HandshakeBook::Round handshakes,
                     const Cleanup& cleanup, std::chrono::milliseconds repeat) {
  auto rest = std::chrono::duration_cast<Clock::duration>(cleanup.duration * options_.rest_factor);
  if (cleanup.complete) {
    backoff_.Success();
    book_.Finish(round, flows);
    tcp_book_.Finish(tcp);
    handshake_book_.Finish(std::move(handshakes));
    if (cleanup.deleted[0] + cleanup.deleted[1] > 0) {
      repeats_.push_back({round, repeat, Clock::now() + repeat});
    }
  } else {
    rest = std::max<Clock::duration>(rest, backoff_.Failure());
    book_.Return(round);
    tcp_book_.Return(tcp);
    handshake_book_.Return(std::move(handshakes));
  }
  next_ = Clock::now() + rest;
  ++status_.rounds;
  status_.failures += cleanup.error.ok() ? 0 : 1;
  status_.entries += cleanup.entries;
  status_.gone += cleanup.gone;
  for (size_t i = 0; i < cleanup.deleted.size(); ++i) {
    status_.deleted[i] += cleanup.deleted[i];
    status_.deleted_tcp[i] += cleanup.deleted_tcp[i];
    status_.deleted_handshakes[i] += cleanup.deleted_handshakes[i];
  }
  status_.last = cleanup;
}

}  // namespace svcmap::proxy
