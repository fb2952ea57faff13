#include "proxy/reconcile/reconciler.h"

#include <algorithm>
#include <utility>

#include "nft/base/status.h"
#include "proxy/desired/node_rows.h"
#include "proxy/desired/service.h"
#include "proxy/diff/removals.h"
#include "proxy/node/ping_target.h"
#include "proxy/reconcile/sync_plan.h"

namespace svcmap::proxy {
namespace {

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
                         static_cast<int64_t>(applied.SourceRows(family)) - more[index];
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
  options_.ruleset.rules_in_use = NeededRules(0, {});
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
  facts.answer_ping = options_.ruleset.answer_ping;
  facts.tcp_resets = options_.ruleset.tcp_resets;
  facts.reset_stale_tcp = options_.reset_stale_tcp;
  facts.hash_picks = options_.ruleset.hash_picks;
  facts.port_ranges = options_.ruleset.port_ranges;
  facts.place = {options_.node_name, node != nullptr ? node->zone : ""};
  facts.node_port_addresses =
      AcceptedNodePortAddresses(options_.node_port_addresses, node, interfaces_);
  for (const Family family : kFamilies) {
    const IpAddress* own_ip = PrimaryAddress(node, family);
    facts.own_ip[Index(family)] =
        own_ip != nullptr ? *own_ip
                          : *IpAddress::Parse(family == Family::kIpv4 ? "127.0.0.1" : "::1");
    if (!options_.ruleset.answer_ping) continue;
    facts.ping_target[Index(family)] = PingTarget(node, interfaces_, family);
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

// A change of the node marks all Services as dirty that depend on it. The cost of this rare change
// depends on the number of these Services.
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
  // Node rows also depend on interface addresses, which have no version.
  if (!std::equal(before.ping_target, before.ping_target + 2, node_.ping_target)) {
    node_version_ = UINT64_MAX;
  }
}

void Reconciler::AddDirty(SyncPlan& sync_plan, size_t element_limit) {
  DesiredContext context = Context();
  // If an address moves between Services, all of them are changed in the same transaction.
  // Otherwise, one Service would add the address before the other Service releases it.
  if (store_.addresses_moved()) element_limit = SIZE_MAX;
  while (store_.FirstDirty() != nullptr && sync_plan.plan.element_bound() < element_limit &&
         sync_plan.dirty.size() < take_limit_) {
    // A Service that the kernel has rejected is retried alone.
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
    const bool had_resets = before != nullptr && before->tcp_resets != TcpResets::kOff;
    const bool has_resets = !desired.rows.empty() && desired.rows.tcp_resets != TcpResets::kOff;
    if (had_resets || has_resets) sync_plan.tcp_resets.push_back(dirty.key);
    sync_plan.more_resets += int64_t{has_resets} - int64_t{had_resets};
    sync_plan.services.emplace_back(dirty.key, std::move(desired.rows));
    sync_plan.dirty.push_back(std::move(dirty));
  }
}

// `more_resets`: number of Services with resets in addition to the applied rows. `more_rows`: rows
// in addition to the applied rows.
RulesInUse Reconciler::NeededRules(int64_t more_resets, const SetCounts& more_rows) const {
  RulesInUse rules;
  rules.resets =
      options_.reset_stale_tcp || static_cast<int64_t>(applied_.reset_services()) + more_resets > 0;
  // The rules stay until the plan after the one that deletes the last row. Packets that have picked
  // their own destination before the switch still need the rules.
  rules.self_endpoints = std::ranges::any_of(kFamilies, [&](Family family) {
    return applied_.counts()[Index(family)][kSelfEndpoints] > 0 ||
           more_rows[Index(family)][kSelfEndpoints] > 0;
  });
  return rules;
}

Reconciler::SyncPlan Reconciler::MakeSyncPlan(size_t element_limit) {
  SyncPlan sync_plan(applied_.shared());
  sync_plan.node_rows = applied_.node_rows();
  if (node_version_ != store_.node_version()) {
    sync_plan.node_rows = NodeRows(options_.ruleset, ThisNode(), node_, store_);
    sync_plan.plan.AddRanges(applied_.node_rows(), sync_plan.node_rows);
  }
  AddDirty(sync_plan, element_limit);
  sync_plan.plan.Finish();
  options_.ruleset.rules_in_use = NeededRules(sync_plan.more_resets, sync_plan.plan.counts());
  return sync_plan;
}

Reconciler::SyncPlan Reconciler::MakeRecreation(size_t element_limit, const FoundTables* found) {
  static const SharedCounts kNone;
  SyncPlan sync_plan(kNone);
  sync_plan.recreate = true;
  sync_plan.node_rows = NodeRows(options_.ruleset, ThisNode(), node_, store_);
  sync_plan.plan.AddRanges({}, sync_plan.node_rows);
  AddDirty(sync_plan, element_limit);
  absl::flat_hash_set<std::string_view> changed;
  for (const auto& [key, rows] : sync_plan.services) changed.insert(key);
  for (const auto& [key, rows] : applied_.services()) {
    if (!changed.contains(std::string_view(key))) sync_plan.plan.AddService(key, nullptr, rows);
  }
  sync_plan.plan.Finish();
  options_.ruleset.rules_in_use = NeededRules(sync_plan.more_resets, sync_plan.plan.counts());
  for (const Family family : kFamilies) {
    sync_plan.specs[Index(family)] =
        std::make_shared<nft::TableSpec>(MakeTable(family, options_.ruleset, timers_.seconds()));
  }
  if (found != nullptr && ChangeTables(*found, sync_plan)) return sync_plan;
  for (const Family family : kFamilies) ReplaceTable(family, sync_plan);
  return sync_plan;
}

void Reconciler::Undo(SyncPlan& sync_plan) {
  numbers_.GiveBack(sync_plan.new_numbers);
  timers_.Rollback();
  store_.ReturnDirty(std::move(sync_plan.dirty));
}

SyncResult Reconciler::Sync(size_t element_limit) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  SyncResult result;
  CheckLeftOver();
  FreeNumbers();
  FollowNode();
  tables_read_ = false;
  if (recreate_ && !rewrite_unread_) ReadPreviousTables();
  const std::optional<FoundTables> found =
      recreate_ ? ReadFoundTables() : std::optional<FoundTables>();
  if (found) ReserveGroups(found->elements);
  SyncPlan sync_plan = recreate_ ? MakeRecreation(element_limit, found ? &*found : nullptr)
                                 : MakeSyncPlan(element_limit);
  // Not necessary for a rewrite, which has read the leftovers or replaces their sets.
  if (!recreate_ && CollidesWithOldRows(sync_plan)) {
    Undo(sync_plan);
    while (HasLeftovers()) RemoveLeftovers();
    result.error = RepairSourceRanges();
    if (!result.error.ok()) {
      result.outcome = SyncResult::Outcome::kFailed;
      return result;
    }
    if (recreate_) return Sync(element_limit);
    sync_plan = MakeSyncPlan(element_limit);
  }
  ChangeRules(sync_plan);
  ReplaceManyRanges(sync_plan);
  const uint64_t node_version = store_.node_version();
  const bool empty = !sync_plan.recreate && sync_plan.plan.transaction().empty();
  result.recreated = sync_plan.recreate;
  Marker marker = applied_.marker();
  if (!empty) {
    marker.digest = (sync_plan.recreate ? 0 : marker.digest) + sync_plan.plan.digest_change();
    marker.generation = std::max(marker.generation, unknown_generation_) + 1;
    sync_plan.removals =
        TakeRemovals(sync_plan.plan.transaction(),
                     sync_plan.recreate ? sync_plan.gone_ports : sync_plan.old_numbers,
                     sync_plan.plan.ended_local_sets());
    sync_plan.plan.AddMarker(sync_plan.recreate ? nullptr : &applied_.marker(), marker);

    const auto planned = Clock::now();
    LogAttempt(sync_plan, marker);
    const auto start = Clock::now();
    AddAhead(sync_plan);
    const bool in_parts = sync_plan.recreate && TablesAreGone();
    const nft::ApplyResult applied = in_parts ? ApplyInParts(sync_plan.plan.transaction())
                                              : kernel_.Apply(sync_plan.plan.transaction());
    const auto end = Clock::now();
    result.error = Settle(applied, marker);
    // Before the outcome is logged, so that the next run does not trust the tables either.
    if (!result.error.ok() && !sync_plan.ahead.empty()) repairer_.MarkRowsSuspect(sync_plan.ahead);
    LogOutcome(result.error.ok(), sync_plan.removals.empty());
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
    result.elements = sync_plan.plan.transaction().element_count() +
                      sync_plan.ahead.element_count() + sync_plan.removals.element_count();
    rejections_ = 0;
  }
  if (sync_plan.recreate) {
    recreate_ = false;
    in_place_ = true;
    failed_rewrites_ = 0;
    rewrite_unread_ = false;
    for (std::optional<nft::TableContent>& previous : previous_tables_) previous.reset();
    result.replaced_chains = std::move(sync_plan.replaced_chains);
    leftovers_.Clear();
    leftovers_.Add({}, std::exchange(reserved_groups_, {}));
    repairer_.TablesWritten(std::move(sync_plan.specs));
  } else if (sync_plan.specs[0] != nullptr) {
    repairer_.RulesWritten(std::move(sync_plan.specs));
  }
  timers_.Commit();
  rules_created_ = options_.ruleset.rules_in_use;
  applied_.Advance(sync_plan.plan, sync_plan.recreate, std::move(sync_plan.services),
                   std::move(sync_plan.node_rows), marker);
  leftovers_.Add(std::move(sync_plan.removals), sync_plan.old_numbers);
  FreeNumbers();
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
  for (std::string& key : sync_plan.tcp_resets) {
    TcpEndpoints tcp = MakeTcpEndpoints(store_.Find(key), applied_.Find(key));
    result.tcp.emplace_back(std::move(key), std::move(tcp));
  }
  result.udp.reserve(sync_plan.dirty.size());
  for (Store::Dirty& dirty : sync_plan.dirty) {
    rejected_.erase(dirty.key);
    AddHealthCheck(dirty.key, result);
    AddLocalhostNodePorts(dirty.key, result);
    UdpPorts ports = MakeUdpPorts(store_.Find(dirty.key), applied_.Find(dirty.key));
    result.udp.emplace_back(std::move(dirty.key), std::move(ports));
  }
  return result;
}

// Adds elements in commits ahead of the plan: the source ranges of newly restricted IPs, ports that
// move to a map that packets look up earlier, and the elements that such ports lead to. If the plan
// is large, all elements that no packet can reach before the plan, in parts, because no commit may
// block the kernel for long.
void Reconciler::AddAhead(SyncPlan& sync_plan) {
  nft::Transaction& transaction = sync_plan.plan.transaction();
  const bool large = transaction.element_count() > kMaxElements;
  const bool has_ranges = sync_plan.plan.source_rows_added() > 0;
  const bool may_move_ports = options_.ruleset.port_ranges && transaction.deletion_count() > 0;
  if ((!large && !has_ranges && !may_move_ports) || !transaction.creations().empty()) return;
  nft::Transaction ahead;
  if (has_ranges) ahead.AddElements(TakeSourceRanges(transaction));
  nft::Transaction moved;
  if (may_move_ports) moved = TakeMovedPorts(transaction);
  if (large || !moved.empty()) ahead.AddElements(TakeAdditions(transaction));
  ahead.AddElements(moved);
  bool failed = false;
  ahead.ForEachPart(kMaxElements, [&](nft::Transaction part) {
    const auto outcome = failed ? nft::ApplyOutcome::kRejected : kernel_.Apply(part).outcome;
    failed = outcome != nft::ApplyOutcome::kCommitted;
    if (!failed && known_generation_) ++*known_generation_;
    if (outcome != nft::ApplyOutcome::kRejected) sync_plan.ahead.AddElements(part);
    // After a failure, the plan contains the remaining additions. Its commit reports the error.
    if (failed) transaction.AddElements(std::move(part));
  });
}

bool Reconciler::CollidesWithOldRows(const SyncPlan& sync_plan) const {
  return leftovers_.CollideWith(sync_plan.plan.transaction()) ||
         (sync_plan.plan.source_rows_added() > 0 && repairer_.has_suspect_source_ranges());
}

RemovalResult Reconciler::RemoveLeftovers() {
  RemovalResult result;
  const auto start = std::chrono::steady_clock::now();
  const nft::ApplyResult applied = kernel_.Apply(leftovers_.Next());
  result.duration = std::chrono::steady_clock::now() - start;
  if (applied.outcome == nft::ApplyOutcome::kCommitted) {
    result.elements = leftovers_.Next().element_count();
    leftovers_.ForgetNext();
    if (known_generation_) ++*known_generation_;
    if (!HasLeftovers()) LogRemoval();
  } else {
    // Another process may have deleted some of the elements. Repair() checks each of them.
    result.error = applied.error;
    for (; HasLeftovers(); leftovers_.ForgetNext()) repairer_.MarkRowsSuspect(leftovers_.Next());
  }
  FreeNumbers();
  return result;
}

// Releases numbers of deleted elements when no element with these numbers can remain in the kernel.
void Reconciler::FreeNumbers() {
  if (HasLeftovers() || repairer_.has_suspects()) return;
  numbers_.Release(leftovers_.TakeFreeNumbers());
}

void Reconciler::AddHealthCheck(const std::string& key, SyncResult& result) {
  std::optional<HealthCheck> check = HealthCheckOf(store_.Find(key), store_.claims());
  const bool had = check ? !health_checked_.insert(key).second : health_checked_.erase(key) > 0;
  if (check || had) result.health_checks.emplace_back(key, check);
}

void Reconciler::AddLocalhostNodePorts(const std::string& key, SyncResult& result) {
  if (!options_.localhost_node_ports[0] && !options_.localhost_node_ports[1]) return;
  LocalhostNodePorts node_ports = LocalhostNodePortsOf(store_.Find(key), store_.claims(),
                                                       node_.place, options_.localhost_node_ports);
  const bool had =
      node_ports.empty() ? on_localhost_.erase(key) > 0 : !on_localhost_.insert(key).second;
  if (had || !node_ports.empty()) {
    result.localhost_node_ports.emplace_back(key, std::move(node_ports));
  }
}

// Returns OK if the kernel has committed the attempt. If the markers do not prove the outcome, the
// next Sync rewrites the tables.
absl::Status Reconciler::Settle(const nft::ApplyResult& result, const Marker& attempted) {
  if (result.outcome == nft::ApplyOutcome::kCommitted) return absl::OkStatus();
  if (result.outcome == nft::ApplyOutcome::kRejected) return result.error;
  for (const Family family : kFamilies) {
    const auto element = kernel_.ReadElement(MarkerSet(family), MarkerKey().bytes());
    Marker marker;
    const bool known = element.ok() && *element && ParseMarker((*element)->data, marker);
    if (known && marker == attempted) continue;
    unknown_generation_ = attempted.generation;
    if (!known || marker != applied_.marker()) recreate_ = true;
    return Annotate(result.error, known ? "not committed" : "commit outcome unknown");
  }
  return absl::OkStatus();
}

}  // namespace svcmap::proxy
