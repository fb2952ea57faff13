#include "proxy/reconcile/reconciler.h"

#include <algorithm>
#include <bit>

#include "nft/base/status.h"
#include "proxy/desired/node_rows.h"
#include "proxy/desired/service.h"
#include "proxy/reconcile/sync_plan.h"

namespace svcmap::proxy {
namespace {

constexpr uint32_t kSmallSize = 1024;
constexpr uint64_t kGrowth = 4;

// At least `elements`, and all that their hash buckets take: three quarters of a power of 2.
uint32_t FullSize(uint64_t elements) {
  return static_cast<uint32_t>(3 * std::bit_ceil((elements + 2) / 3));
}

// The names that `specs` do not have.
template <typename Spec>
std::vector<std::string> NotAmong(const std::vector<Spec>& specs,
                                  const std::map<std::string, uint64_t>& names) {
  std::vector<std::string> others;
  for (const auto& [name, digest] : names) {
    const auto same = [&name = name](const Spec& spec) { return spec.name == name; };
    if (std::none_of(specs.begin(), specs.end(), same)) others.push_back(name);
  }
  return others;
}

// What has to go from a table that is written in place.
nft::ChainRepair Leftovers(const nft::TableContent& former,
                           std::shared_ptr<const nft::TableSpec> spec) {
  return {.family = spec->family,
          .spec = spec,
          .remove_chains = NotAmong(spec->chains, former.chains),
          .remove_sets = NotAmong(spec->sets, former.sets)};
}

nft::SetRef MarkerSet(Family family) { return {family, kMarker}; }

}  // namespace

size_t SourceRowsBefore(const ServiceRows* before, Family family) {
  return before == nullptr ? 0 : SourceRowCount(*before, family);
}

void AllowSources(const Applied& applied, const int64_t (&more)[2], const ServiceRows* before,
                  DesiredContext& context) {
  for (const Family family : kFamilies) {
    const size_t index = Index(family);
    const int64_t left = static_cast<int64_t>(kMaxSourceRows) -
                         applied.counts()[index][kFirewallSources] - more[index];
    context.source_rows[index] =
        static_cast<size_t>(std::max<int64_t>(left, 0)) + SourceRowsBefore(before, family);
  }
}

DesiredService Desire(const std::string& key, const Store& store, const Applied& applied,
                      const ServiceRows* before, int64_t (&source_rows)[2],
                      DesiredContext& context) {
  AllowSources(applied, source_rows, before, context);
  DesiredService desired = MakeDesiredService(store.Find(key), context, before);
  for (const Family family : kFamilies) {
    source_rows[Index(family)] += static_cast<int64_t>(SourceRowCount(desired.rows, family)) -
                                  static_cast<int64_t>(SourceRowsBefore(before, family));
  }
  return desired;
}

Reconciler::Reconciler(nft::Kernel& kernel, ReconcilerOptions options, StateLog* log)
    : kernel_(kernel), options_(std::move(options)), log_(log) {
  if (log_ != nullptr) store_.KeepTouched();
}

void Reconciler::SetInterfaceAddresses(std::vector<IpAddress> addresses) {
  interfaces_ = std::move(addresses);
  node_changed_ = true;
}

bool Reconciler::Pending() const {
  return recreate_ || store_.dirty_count() > 0 || !rejected_findings_.empty() || NodeChanged();
}

const Node* Reconciler::ThisNode() const {
  const auto node = store_.nodes().find(options_.node_name);
  return node == store_.nodes().end() ? nullptr : node->second.get();
}

NodeFacts Reconciler::FactsNow() const {
  const Node* node = ThisNode();
  NodeFacts facts;
  facts.place = {options_.node_name, node != nullptr ? node->zone : ""};
  facts.node_port_addresses =
      AcceptedNodePortAddresses(options_.node_port_addresses, node, interfaces_);
  for (const Family family : kFamilies) {
    const IpAddress* own_ip = PrimaryAddress(node, family);
    facts.own_ip[Index(family)] =
        own_ip != nullptr ? *own_ip
                          : *IpAddress::Parse(family == Family::kIpv4 ? "127.0.0.1" : "::1");
  }
  return facts;
}

std::function<bool(const ServiceEntry&)> DependsOn(const NodeFacts& before,
                                                   const NodeFacts& after) {
  const bool ports = before.node_port_addresses != after.node_port_addresses;
  const bool place = before.place != after.place;
  const bool own_ip = !std::equal(before.own_ip, before.own_ip + 2, after.own_ip);
  return [ports, place, own_ip](const ServiceEntry& entry) {
    const auto has_node_port = [](const ServicePort& port) { return port.node_port != 0; };
    const auto has_hints = [](const auto& slice) { return !slice->hints.empty(); };
    const std::vector<ServicePort>& service_ports = entry.service->ports;
    return (ports && std::any_of(service_ports.begin(), service_ports.end(), has_node_port)) ||
           (place && std::any_of(entry.slices.begin(), entry.slices.end(), has_hints)) ||
           (own_ip && !entry.service->source_ranges.empty());
  };
}

// When the node changes, all Services that depend on the change are written again: the one change
// that costs more than itself, and it is rare.
void Reconciler::FollowNode() {
  if (!NodeChanged()) return;
  std::vector<IpAddress> health_checks =
      HealthCheckAddresses(options_.node_port_addresses, ThisNode(), interfaces_);
  if (health_checks != health_check_addresses_) {
    health_check_addresses_ = std::move(health_checks);
    health_check_addresses_changed_ = true;
  }
  const NodeFacts before = std::exchange(node_, FactsNow());
  if (before != node_) store_.MarkDirtyIf(DependsOn(before, node_));
}

void Reconciler::AddDirty(SyncPlan& sync_plan, size_t element_limit) {
  DesiredContext context = Context();
  // What one Service gives up must not be taken by another one before.
  if (store_.addresses_moved()) element_limit = SIZE_MAX;
  while (store_.FirstDirty() != nullptr && sync_plan.plan.element_bound() < element_limit &&
         sync_plan.dirty.size() < take_limit_) {
    // What was refused once is tried alone.
    const bool alone = rejected_.contains(store_.FirstDirty()->key);
    if (alone && !sync_plan.dirty.empty()) break;
    if (alone) element_limit = 0;
    Store::Dirty dirty = store_.TakeDirty();
    const ServiceRows* before = applied_.Find(dirty.key);
    DesiredService desired =
        Desire(dirty.key, store_, applied_, before, sync_plan.source_rows, context);
    sync_plan.plan.AddService(dirty.key, sync_plan.recreate ? nullptr : before, desired.rows);
    for (auto [from, to] : {std::pair{&desired.new_numbers, &sync_plan.new_numbers},
                            std::pair{&desired.old_numbers, &sync_plan.old_numbers}}) {
      to->insert(to->end(), from->begin(), from->end());
    }
    for (Finding& finding : desired.findings) {
      sync_plan.findings.emplace_back(dirty.sequence, std::move(finding));
    }
    sync_plan.services.emplace_back(dirty.key, std::move(desired.rows));
    sync_plan.dirty.push_back(std::move(dirty));
  }
}

Reconciler::SyncPlan Reconciler::MakeSyncPlan(size_t element_limit) {
  SyncPlan sync_plan(applied_.shared());
  sync_plan.node_rows = applied_.node_rows();
  if (node_version_ != store_.node_version()) {
    sync_plan.node_rows = NodeRows(options_.ruleset, ThisNode(), store_);
    sync_plan.plan.AddRanges(applied_.node_rows(), sync_plan.node_rows);
  }
  AddDirty(sync_plan, element_limit);
  sync_plan.plan.Finish();
  return sync_plan;
}

Reconciler::SyncPlan Reconciler::MakeRecreation(size_t element_limit) {
  static const SharedCounts kNone;
  SyncPlan sync_plan(kNone);
  sync_plan.recreate = true;
  sync_plan.node_rows = NodeRows(options_.ruleset, ThisNode(), store_);
  sync_plan.plan.AddRanges({}, sync_plan.node_rows);
  AddDirty(sync_plan, element_limit);
  absl::flat_hash_set<std::string_view> changed;
  for (const auto& [key, rows] : sync_plan.services) changed.insert(key);
  for (const auto& [key, rows] : applied_.services()) {
    if (!changed.contains(std::string_view(key))) sync_plan.plan.AddService(key, nullptr, rows);
  }
  sync_plan.plan.Finish();
  nft::Transaction& transaction = sync_plan.plan.transaction();
  const SetCounts counts = Expected(sync_plan.plan.counts());
  for (const Family family : kFamilies) {
    if (!in_place_) transaction.DropTable(family);
    const auto spec =
        std::make_shared<nft::TableSpec>(MakeTable(family, options_.ruleset, timers_.seconds()));
    transaction.CreateTable({family, SizesFor(family, counts[Index(family)]), spec, in_place_});
    if (!in_place_ || !previous_tables_[Index(family)]) continue;
    nft::ChainRepair leftovers = Leftovers(*previous_tables_[Index(family)], spec);
    if (leftovers.remove_chains.empty() && leftovers.remove_sets.empty()) continue;
    transaction.RepairChains(std::move(leftovers));
  }
  return sync_plan;
}

// What is left to program will follow at once: the maps are made for it, too.
SetCounts Reconciler::Expected(SetCounts counts) const {
  store_.ForEachDirty([&](const Store::Dirty& dirty) {
    const ServiceEntry* entry = store_.Find(dirty.key);
    if (entry == nullptr || !entry->service) return;
    const auto ports = static_cast<int64_t>(entry->service->ports.size());
    for (const auto& slice : entry->slices) {
      counts[Index(slice->family)][kEndpoints] +=
          ports * static_cast<int64_t>(slice->endpoints.size());
    }
    for (const ClaimKey& claim : ClaimsOf(*entry->service)) {
      ++counts[Index(claim.address.family())][kServiceIps];
    }
  });
  return counts;
}

std::vector<uint32_t> Reconciler::SizesFor(Family family,
                                           const std::array<int64_t, kSetCount>& counts) const {
  std::vector<uint32_t> sizes(kSetCount, kSmallSize);
  const bool fits = counts[kServiceIps] <= kSmallSize && counts[kEndpoints] <= kSmallSize;
  if (family == Family::kIpv6 && fits) return sizes;
  for (const auto& [set, first] : {std::pair(kServiceIps, options_.first_service_ips),
                                   std::pair(kEndpoints, options_.first_endpoints)}) {
    const auto needed = static_cast<uint64_t>(counts[set]);
    sizes[set] = std::max(first, FullSize(needed * kGrowth));
  }
  return sizes;
}

bool Reconciler::Fits(const SetCounts& more, size_t source_rows_removed) const {
  if (timers_created_ != timers_.seconds().size()) return false;
  if (source_rows_removed > kMaxSourceRowsRemoved) return false;
  for (const Family family : kFamilies) {
    for (const SetIndex set : {kServiceIps, kEndpoints}) {
      const size_t index = Index(family);
      const int64_t after = applied_.counts()[index][set] + more[index][set];
      if (after > static_cast<int64_t>(sizes_[index][set])) return false;
    }
  }
  return true;
}

void Reconciler::Undo(SyncPlan& sync_plan) {
  numbers_.GiveBack(sync_plan.new_numbers);
  store_.ReturnDirty(std::move(sync_plan.dirty));
}

SyncResult Reconciler::Sync(size_t element_limit) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  SyncResult result;
  FollowNode();
  if (recreate_ && in_place_) ReadPreviousTables();
  SyncPlan sync_plan = recreate_ ? MakeRecreation(element_limit) : MakeSyncPlan(element_limit);
  if (!sync_plan.recreate && !Fits(sync_plan.plan.counts(), sync_plan.plan.source_rows_removed())) {
    Undo(sync_plan);
    sync_plan = MakeRecreation(element_limit);
  }
  const uint64_t node_version = store_.node_version();
  const bool empty = sync_plan.plan.transaction().empty();
  result.recreated = sync_plan.recreate;
  Marker marker = applied_.marker();
  if (!empty) {
    marker.digest = (sync_plan.recreate ? 0 : marker.digest) + sync_plan.plan.digest_change();
    ++marker.generation;
    sync_plan.plan.AddMarker(sync_plan.recreate ? nullptr : &applied_.marker(), marker);

    const auto planned = Clock::now();
    LogAttempt(sync_plan, marker);
    const auto start = Clock::now();
    const nft::ApplyResult applied = kernel_.Apply(sync_plan.plan.transaction());
    const auto end = Clock::now();
    result.error = Settle(applied, marker);
    LogOutcome(result.error.ok());
    result.plan_duration = planned - began;
    result.duration = end - start;
    result.save_duration = start - planned + (Clock::now() - end);
    if (!result.error.ok()) {
      HandleRejection(sync_plan, applied);
      Undo(sync_plan);
      result.outcome = SyncResult::Outcome::kFailed;
      return result;
    }
    result.outcome = SyncResult::Outcome::kCommitted;
    result.elements = sync_plan.plan.transaction().element_count();
    rejections_ = 0;
  }
  if (sync_plan.recreate) {
    Specs specs;
    for (const auto& creation : sync_plan.plan.transaction().creations()) {
      sizes_[Index(creation.family)] = creation.sizes;
      specs[Index(creation.family)] = creation.spec;
    }
    recreate_ = false;
    in_place_ = true;
    for (std::optional<nft::TableContent>& former : previous_tables_) former.reset();
    timers_created_ = timers_.seconds().size();
    repairer_.TablesWritten(std::move(specs));
  }
  applied_.Advance(sync_plan.plan, sync_plan.recreate, std::move(sync_plan.services),
                   std::move(sync_plan.node_rows), marker);
  numbers_.Release(sync_plan.old_numbers);
  node_changed_ = false;
  node_version_ = node_version;
  if (take_limit_ < SIZE_MAX / 2) take_limit_ *= 2;
  result.findings = std::move(sync_plan.findings);
  result.findings.insert(result.findings.end(), std::make_move_iterator(rejected_findings_.begin()),
                         std::make_move_iterator(rejected_findings_.end()));
  rejected_findings_.clear();
  if (std::exchange(health_check_addresses_changed_, false)) {
    result.health_check_addresses = health_check_addresses_;
  }
  result.udp.reserve(sync_plan.dirty.size());
  for (Store::Dirty& dirty : sync_plan.dirty) {
    rejected_.erase(dirty.key);
    AddHealthCheck(dirty.key, result);
    UdpPorts ports = MakeUdpPorts(store_.Find(dirty.key), applied_.Find(dirty.key));
    result.udp.emplace_back(std::move(dirty.key), std::move(ports));
  }
  return result;
}

void Reconciler::AddHealthCheck(const std::string& key, SyncResult& result) {
  std::optional<HealthCheck> check = HealthCheckOf(store_.Find(key), store_.claims());
  const bool had = check ? !health_checked_.insert(key).second : health_checked_.erase(key) > 0;
  if (check || had) result.health_checks.emplace_back(key, check);
}

// OK if the kernel holds what was attempted. Where the marker cannot tell everything is written
// again next time.
absl::Status Reconciler::Settle(const nft::ApplyResult& result, const Marker& attempted) {
  if (result.outcome == nft::ApplyOutcome::kCommitted) return absl::OkStatus();
  if (result.outcome == nft::ApplyOutcome::kRejected) return result.error;
  for (const Family family : kFamilies) {
    const auto element = kernel_.ReadElement(MarkerSet(family), MarkerKey().bytes());
    Marker marker;
    const bool known = element.ok() && *element && ParseMarker((*element)->data, marker);
    if (known && marker == attempted) continue;
    if (!known || marker != applied_.marker()) recreate_ = true;
    return Annotate(result.error, known ? "not committed" : "commit outcome unknown");
  }
  return absl::OkStatus();
}

}  // namespace svcmap::proxy
