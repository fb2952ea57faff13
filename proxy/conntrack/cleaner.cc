#include "proxy/conntrack/cleaner.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace svcmap::proxy {
namespace {

using Clock = std::chrono::steady_clock;

// Number of flows to collect before they are tested again and deleted.
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
  if (thread_.joinable()) thread_.join();
}

void Cleaner::Update(const std::vector<std::pair<std::string, UdpPorts>>& services,
                     const EndpointChanges& changes) {
  bool due = false;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, ports] : services) udp_.Update(key, ports);
    const bool waiting = !departures_.order().empty();
    const auto now = Clock::now();
    forgotten_ += departures_.Add(changes.left, now);
    const bool check = handshakes_.Update(changes, now);
    due = asleep_ && (udp_.due() || (!waiting && !changes.left.empty()) || check);
  }
  if (due) wake_.notify_one();  // Commits that make no flow stale do not wake the thread.
}

void Cleaner::StateIsComplete() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(complete_, true)) return;
    handshakes_.Check();
  }
  wake_.notify_one();
}

void Cleaner::TablesRepaired() {
  {
    const std::lock_guard lock(mutex_);
    udp_.MakeDue();
    handshakes_.Check();
  }
  wake_.notify_one();
}

CleanerStatus Cleaner::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::optional<Clock::time_point> Cleaner::WorkDueAt() const {
  if (!complete_) return std::nullopt;
  if (udp_.due()) return Clock::time_point::min();
  std::optional<Time> departures_at;
  if (options_.find && !departures_.order().empty()) {
    departures_at = departures_.order().front().event.time + options_.gone_after;
  }
  std::optional<Time> at = repeat_at_;
  for (const auto& due_at : {departures_at, options_.find ? handshakes_.due_at() : std::nullopt}) {
    if (due_at) at = std::min(at.value_or(*due_at), *due_at);
  }
  return at;
}

void Cleaner::AwaitWork(std::unique_lock<std::mutex>& lock) {
  asleep_ = true;
  while (!stopping_) {
    const auto due_at = WorkDueAt();
    if (!due_at) {
      wake_.wait(lock);
    } else if (*due_at > Clock::now()) {
      wake_.wait_until(lock, *due_at);
    } else {
      break;
    }
  }
  asleep_ = false;
}

Cleaner::Round Cleaner::StartRound() {
  Round round{.start = Clock::now()};
  const bool first_scan = udp_.due();
  const bool repeats = repeat_at_ && *repeat_at_ <= round.start;
  // A scan before the time of the repeat is no substitute, because replies can still be in flight.
  if (repeats) repeat_at_.reset();
  if (first_scan || (repeats && udp_.services() > 0)) {
    repeat_delay_ =
        first_scan ? options_.repeat
                   : std::min(2 * repeat_delay_, std::max(options_.repeat, options_.last_retry));
    udp_.Start();
    round.cleanup.services = udp_.services();
  }
  absl::flat_hash_set<ServiceHash> tcp_services;
  for (const auto& [departure, endpoint] : departures_.order()) {
    if (!options_.find || departure.time + options_.gone_after > round.start) break;
    tcp_services.insert(departure.service);
  }
  round.cleanup.tcp_services = tcp_services.size();
  round.cleanup.handshakes = options_.find && handshakes_.Start(round.start);
  for (const Family family : kFamilies) {
    const auto add = [&](nft::TransportProtocol protocol, bool covered) {
      if (covered) round.kinds.push_back({protocol, family});
    };
    add(nft::TransportProtocol::kUdp, round.udp() && udp_.HasFamily(family));
    add(nft::TransportProtocol::kTcp, round.handshakes() || round.tcp());
    add(nft::TransportProtocol::kSctp, round.handshakes());
  }
  return round;
}

void Cleaner::Run() {
  std::unique_lock lock(mutex_);
  const auto stopping = [this] { return stopping_.load(); };
  for (;;) {
    AwaitWork(lock);
    next_ = std::max(next_, Clock::now() + options_.settle);
    if (wake_.wait_until(lock, next_, stopping)) return;

    Round round = StartRound();
    // A repeated scan has nothing to do if no Service has flows left.
    if (!round.udp() && !round.tcp() && !round.handshakes()) continue;
    round.cleanup.forgotten_tcp = std::exchange(forgotten_, 0);
    lock.unlock();
    Clean(round);
    lock.lock();
    if (stopping_) return;
    Settle(round);
    lock.unlock();
    if (options_.on_round) options_.on_round(round.cleanup);
    lock.lock();
  }
}

const EndpointEvents<EndpointAddress>::Events* Cleaner::DeparturesOf(const nft::Flow& flow) const {
  if (flow.protocol != nft::TransportProtocol::kTcp) return nullptr;
  return departures_.Find({flow.reply.source.address, flow.reply.source.port});
}

bool Cleaner::IsGone(const nft::Flow& flow, ServiceHash service, const Round& round) const {
  const auto* departures = DeparturesOf(flow);
  if (departures == nullptr) return false;
  bool gone = false;
  for (const auto& departure : *departures) {  // The last departure counts.
    if (departure.service != service) continue;
    gone = departure.time + options_.gone_after <= round.start;
  }
  return gone;
}

bool Cleaner::Delete(std::vector<nft::Flow>& flows, std::array<uint64_t, 2>& deleted,
                     Cleanup& cleanup) {
  const auto ipv6 = std::partition(flows.begin(), flows.end(), [](const nft::Flow& flow) {
    return flow.family() == Family::kIpv4;
  });
  for (const Family family : kFamilies) {
    const bool first = family == Family::kIpv4;
    const std::span chosen(first ? flows.begin() : ipv6, first ? ipv6 : flows.end());
    if (chosen.empty() || !cleanup.error.ok()) continue;
    const nft::FlowTable::Deletion deletion = table_.Delete(chosen);
    deleted[Index(family)] += deletion.deleted;
    cleanup.error.Update(deletion.status);
  }
  flows.clear();
  return cleanup.error.ok();
}

// Waits for the end of the present commit, because listed flows may use its rules.
bool Cleaner::DeleteUdp(std::vector<nft::Flow>& flows, Cleanup& cleanup) {
  if (!flows.empty()) {
    if (options_.find && !options_.find({})) return false;
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    std::erase_if(flows, [this](const nft::Flow& flow) { return !udp_.IsStale(flow); });
  }
  return Delete(flows, cleanup.deleted, cleanup);
}

std::vector<ServiceHash> Cleaner::KeepStaleConnections(std::vector<nft::Flow>& flows) {
  StaleConnections stale;
  if (options_.find && !flows.empty()) stale = options_.find(flows);
  if (!stale) flows.clear();
  std::vector<ServiceHash> services;
  for (size_t i = 0; i < flows.size(); ++i) {
    if (!(*stale)[i]) continue;
    flows[services.size()] = flows[i];
    services.push_back(*(*stale)[i]);
  }
  flows.resize(services.size());
  return services;
}

bool Cleaner::DeleteConnections(std::vector<nft::Flow>& flows, Round& round) {
  const std::vector<ServiceHash> services = KeepStaleConnections(flows);
  std::vector<nft::Flow> gone, reused;
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    for (size_t i = 0; i < flows.size(); ++i) {
      const nft::Flow& flow = flows[i];
      if (IsGone(flow, services[i], round)) {
        gone.push_back(flow);
      } else if (!flow.unreplied || !round.handshakes()) {
        continue;
      } else if (handshakes_.IsReused(flow, services[i], now)) {
        reused.push_back(flow);
      } else {
        handshakes_.Record(flow, now);
      }
    }
  }
  flows.clear();
  return Delete(gone, round.cleanup.deleted_tcp, round.cleanup) &&
         Delete(reused, round.cleanup.deleted_handshakes, round.cleanup);
}

void Cleaner::Clean(Round& round) {
  Cleanup& cleanup = round.cleanup;
  absl::flat_hash_map<uint32_t, nft::Flow> old;  // The old handshakes that are still stale, by id.
  if (round.handshakes()) {
    std::vector<nft::Flow> recorded;
    {
      const std::lock_guard lock(mutex_);
      recorded = handshakes_.Old();
    }
    for (size_t begin = 0; begin < recorded.size(); begin += kChunk) {
      const auto chunk = std::span(recorded).subspan(begin);
      std::vector<nft::Flow> still(chunk.begin(), chunk.begin() + std::min(kChunk, chunk.size()));
      KeepStaleConnections(still);
      for (const nft::Flow& flow : still) old.emplace(flow.id, flow);
    }
  }
  // The dump of flows is paused during the deletion. A paused dump holds no resources in the kernel
  // and continues at the same position.
  std::vector<nft::Flow> udp, connections;
  const uint64_t max_entries =
      round.udp() || round.tcp() ? nft::FlowTable::kAllEntries : options_.max_handshake_entries;
  const auto listing = table_.ForEach(round.kinds, max_entries, [&](const nft::Flow& flow) {
    if (stopping_) return false;
    const auto locked = [this](const auto& test) {
      const std::lock_guard lock(mutex_);
      return test();
    };
    if (flow.protocol == nft::TransportProtocol::kUdp) {
      if (!locked([&] { return udp_.IsStale(flow); })) return true;
      udp.push_back(flow);
      return udp.size() < kChunk || DeleteUdp(udp, cleanup);
    }
    const bool handshake = round.handshakes() && flow.unreplied;
    if (!handshake && !(round.tcp() && locked([&] { return DeparturesOf(flow) != nullptr; }))) {
      return true;
    }
    // An old handshake is deleted immediately, because its endpoint could reply at any time.
    const auto found = handshake ? old.find(flow.id) : old.end();
    if (found != old.end() && found->second == flow) {
      std::vector<nft::Flow> one = {flow};
      return Delete(one, cleanup.deleted_handshakes, cleanup);
    }
    connections.push_back(flow);
    return connections.size() < kChunk || DeleteConnections(connections, round);
  });
  cleanup.error.Update(listing.status());
  if (listing.ok()) cleanup.entries = listing->entries;
  if (!stopping_ && cleanup.error.ok() && DeleteUdp(udp, cleanup)) {
    DeleteConnections(connections, round);
  }
  cleanup.complete = cleanup.error.ok() && listing->complete;
  cleanup.duration = Clock::now() - round.start;
}

void Cleaner::Settle(const Round& round) {
  const Cleanup& cleanup = round.cleanup;
  auto rest = std::chrono::duration_cast<Clock::duration>(cleanup.duration * options_.rest_factor);
  if (cleanup.complete) {
    backoff_.Success();
    if (round.udp()) udp_.Finish();
    if (round.tcp()) departures_.ForgetUntil(round.start - options_.gone_after);
    if (round.handshakes()) handshakes_.Finish();
  } else {
    rest = std::max<Clock::duration>(rest, backoff_.Failure());
    if (round.udp()) udp_.MakeDue();
    if (round.handshakes()) handshakes_.Return();
  }
  if (cleanup.deleted[0] + cleanup.deleted[1] > 0) repeat_at_ = Clock::now() + repeat_delay_;
  next_ = Clock::now() + rest;
  status_.failures += cleanup.error.ok() ? 0 : 1;
  for (size_t i = 0; i < cleanup.deleted.size(); ++i) {
    status_.deleted[i] += cleanup.deleted[i];
    status_.deleted_tcp[i] += cleanup.deleted_tcp[i];
    status_.deleted_handshakes[i] += cleanup.deleted_handshakes[i];
  }
}

}  // namespace svcmap::proxy
