#include "proxy/reconcile/reconciler.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "nft/base/status.h"
#include "proxy/diff/phases.h"

namespace svcmap::proxy {
namespace {

// Tables of another version may have other sets. Then the result is 0. Retries while commits of
// other processes interrupt a dump. May block, because svcmapd has nothing else to do at start.
size_t CountServicesInTables(nft::Kernel& kernel) {
  constexpr int kAttempts = 100;
  absl::flat_hash_set<std::string> services;
  for (const Family family : kFamilies) {
    absl::StatusOr<std::vector<nft::Element>> elements;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      elements = kernel.ReadSet({family, kServiceIps});
      if (!absl::IsUnavailable(elements.status())) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(std::min(attempt, 20)));
    }
    if (!elements.ok()) continue;
    for (const nft::Element& element : *elements) {
      services.insert(element.comment.substr(0, element.comment.rfind(':')));
    }
  }
  return services.size();
}

// Returns what the run has received if the saved objects match the tables.
Received FirstState(const SavedObjects& saved) {
  if (!saved.partial) return Received::kStored;
  // Without objects, the previous run has only created empty tables.
  return saved.objects.empty() ? Received::kNothing : Received::kPartial;
}

// Adds the value of a Service that has or had one. `known` contains the Services that had one.
template <typename Value, typename Changes>
void AddChange(const std::string& key, Value value, bool has,
               absl::flat_hash_set<std::string>& known, Changes& changes) {
  const bool had = has ? !known.insert(key).second : known.erase(key) > 0;
  if (has || had) changes.emplace_back(key, std::move(value));
}

}  // namespace

Reconciler::Reconciler(nft::Kernel& kernel, ReconcilerOptions options, ObjectWriter* disk)
    : kernel_(kernel), options_(std::move(options)), disk_(disk) {}

absl::StatusOr<Received> Reconciler::Adopt(const SavedObjects& saved) {
  Marker marker;
  bool has_marker = false, has_table = false;
  for (const Family family : kFamilies) {
    const absl::StatusOr<bool> there = kernel_.HasTable(family);
    if (!there.ok()) return there.status();
    has_table |= *there;
    const auto rows = kernel_.ReadElements({family, kMarker}, MarkerKeys());
    if (!rows.ok()) return rows.status();
    has_marker |= ParseMarker(family, *rows, marker);
  }
  if (has_table) planner_.ContinueFrom(marker.next_numbers);
  const bool has_saved = saved.revision != 0;
  if (!has_marker) {
    marker.generation = saved.revision;
    applied_.ContinueFrom(marker);
    if (has_saved) return FirstState(saved);
    if (has_table) previous_services_ = CountServicesInTables(kernel_);
    return previous_services_ == 0 ? Received::kNothing : Received::kPreviousRules;
  }
  planner_.numbering().timers.Restore(marker.timers);
  // A killed run may have saved the objects of a commit that did not take place, or may not have
  // saved the objects of its last commit, which then has no Ack.
  const bool current = has_saved && marker.saved && saved.revision + 1 >= marker.generation;
  marker.generation = std::max(marker.generation, saved.revision);
  applied_.ContinueFrom(marker);
  if (current) return FirstState(saved);
  previous_services_ = CountServicesInTables(kernel_);
  outdated_ = true;
  return Received::kPreviousRules;
}

bool Reconciler::Pending() const {
  return tables_ != TableState::kCurrent || store_.dirty().size() > 0 ||
         rejections_.has_findings() || node_.Changed() || MarkerIsOutdated();
}

Marker Reconciler::NextMarker() {
  return {.generation = NextRevision(),
          .saved = IsSaving(),
          .next_numbers = planner_.numbering().numbers.Next(),
          .timers = planner_.numbering().timers.seconds()};
}

SyncResult Reconciler::Sync(size_t element_limit, bool partial) {
  SyncResult result;
  partial_ = partial;
  const bool saves = Pending() && Program(element_limit, result);
  const auto start = Clock::now();
  // Without a commit, the saved objects must have the revision of the marker, so that a restart
  // writes nothing.
  if (!saves || result.outcome == SyncResult::Outcome::kNothing) SaveObjects(revision());
  if (result.outcome == SyncResult::Outcome::kFailed) return result;
  AwaitSaved();
  result.save_duration = Clock::now() - start;
  result.may_answer = !applied_.marker().saved || IsSaving();
  return result;
}

bool Reconciler::Program(size_t element_limit, SyncResult& result) {
  const auto began = Clock::now();
  // No element with the number of a deleted element can remain in tables that are verified.
  if (tables_ == TableState::kCurrent && !repairer_.has_suspects()) {
    planner_.numbering().numbers.Release(leftovers_.TakeFreeNumbers());
  }
  // The disk thread writes during the plan and the commit. If the plan is empty, Sync() saves the
  // unchanged revision.
  bool saves = IsSaving();
  if (saves) SaveObjects(NextRevision());
  node_.Follow();
  absl::StatusOr<SyncPlan> sync_plan = MakePlan(element_limit, result.repairs);
  if (!sync_plan.ok()) {
    result.outcome = SyncResult::Outcome::kFailed;
    result.error = sync_plan.status();
    return saves;
  }
  Marker marker = applied_.marker();
  if (!sync_plan->empty() || MarkerIsOutdated()) {
    result.recreated = sync_plan->rewrite;
    marker = NextMarker();
    nft::Transaction& transaction = sync_plan->plan.transaction();
    sync_plan->context.masquerades_cluster_ips = MasqueradesClusterIps(options_.ruleset);
    Phases phases = SplitIntoPhases(std::move(transaction), sync_plan->context);
    sync_plan->first = std::move(phases.first);
    transaction = std::move(phases.change);
    sync_plan->removals = std::move(phases.removals);
    ReplaceMarker(sync_plan->has_marker ? &applied_.marker() : nullptr, marker, transaction);
    result.plan_duration = Clock::now() - began;
    if (!saves) SaveObjects(marker.generation);
    saves = true;
    Commit(*sync_plan, marker, result);
    if (result.outcome == SyncResult::Outcome::kFailed) return saves;
  }
  Advance(*sync_plan, marker);
  result.replaced_chains = std::move(sync_plan->replaced_chains);
  UpdateFindings(*sync_plan, result);
  Announce(*sync_plan, result);
  return saves;
}

absl::StatusOr<SyncPlan> Reconciler::MakePlan(size_t element_limit,
                                              std::vector<RepairResult>& repairs) {
  if (std::exchange(plan_failed_, false)) RepairBeforePlan(repairs);
  if (tables_ != TableState::kCurrent) return MakeRewrite(element_limit);
  SyncPlan sync_plan = planner_.MakeChanges(element_limit);
  // A rewrite has read the leftovers, so only other plans can collide.
  const bool collides = leftovers_.CollideWith(sync_plan.plan.transaction()) ||
                        (sync_plan.plan.source_rows_added() > 0 && repairer_.has_known_suspects());
  const bool many_ranges = planner_.RemovesManyRanges(sync_plan);
  if (!collides && !many_ranges) return sync_plan;
  planner_.Undo(sync_plan);
  if (collides) RepairBeforePlan(repairs);
  if (many_ranges && tables_ == TableState::kCurrent) {
    // A rewrite replaces the sets of source ranges. If the tables cannot be read, each range is
    // deleted instead, because no damage justifies the loss of packets after more attempts.
    Invalidate();
    absl::StatusOr<SyncPlan> rewrite = MakeRewrite(element_limit);
    if (rewrite.ok()) return rewrite;
    tables_ = TableState::kCurrent;
    failed_reads_ = 0;
  }
  if (tables_ != TableState::kCurrent) return MakeRewrite(element_limit);
  return planner_.MakeChanges(element_limit);
}

// Continuous commits of other processes may prevent reading. After many attempts, the tables are
// replaced without being read.
absl::StatusOr<SyncPlan> Reconciler::MakeRewrite(size_t element_limit) {
  constexpr int kPatience = 20;
  // The plan may immediately delete elements of earlier commits, including commits of the previous
  // run. Packets may still reach these elements.
  if (!leftovers_.empty() || unknown_generation_ > revision() || planner_.continues()) {
    AwaitPackets();
  }
  if (tables_ == TableState::kUnverified) {
    const absl::StatusOr<FoundTables> found = planner_.ReadTables();
    if (!found.ok() && ++failed_reads_ < kPatience) return found.status();
    failed_reads_ = 0;
    if (found.ok()) return planner_.MakeRewrite(element_limit, &*found);
    tables_ = TableState::kReplacing;
  }
  return planner_.MakeRewrite(element_limit, nullptr);
}

// Deletes leftovers first. Gives up after consecutive failures: constant commits of other
// processes can prevent the comparison of a large set.
void Reconciler::RepairBeforePlan(std::vector<RepairResult>& repairs) {
  while (!leftovers_.empty()) RemoveLeftovers();
  constexpr int kMaxFailures = 8;
  int failures = 0;
  while (tables_ == TableState::kCurrent && repairer_.has_known_suspects() &&
         failures < kMaxFailures) {
    const RepairResult result = Repair();
    failures = result.outcome == RepairResult::Outcome::kFailed ? failures + 1 : 0;
    if (result.outcome != RepairResult::Outcome::kNothing) repairs.push_back(result);
  }
}

// Leftovers are deleted before, because suspect sets are compared with the applied rows. After
// several rejected repairs, the next Sync rewrites the tables.
RepairResult Reconciler::Repair() {
  constexpr int kPatience = 3;
  while (repairer_.has_known_suspects() && !leftovers_.empty()) RemoveLeftovers();
  RepairResult result = repairer_.Repair();
  if (result.outcome == RepairResult::Outcome::kRewrite || repairer_.rejected() >= kPatience) {
    Invalidate();
  }
  return result;
}

// Sets the outcome and the durations. After a failure, the Services are dirty again.
void Reconciler::Commit(SyncPlan& sync_plan, const Marker& marker, SyncResult& result) {
  const auto start = Clock::now();
  nft::ApplyResult applied = CommitFirst(sync_plan);
  nft::Transaction& transaction = sync_plan.plan.transaction();
  const bool in_parts = applied.error.ok() && !transaction.creations().empty();
  if (applied.error.ok()) {
    applied = in_parts ? ApplyInParts(kernel_, transaction) : kernel_.Apply(transaction);
  }
  const auto end = Clock::now();
  result.error = Settle(applied, marker);
  const bool committed = result.error.ok();
  result.duration = end - start;
  plan_failed_ = !committed;
  if (!committed) {
    const bool ahead = !sync_plan.ahead.empty();
    if (ahead) repairer_.MarkRowsSuspect(sync_plan.ahead);
    const Rejections::Remedy remedy = rejections_.Handle(tables_, sync_plan, applied, applied_);
    if (remedy == Rejections::Remedy::kCheckRows) {
      repairer_.MarkRowsSuspect(sync_plan.plan.transaction());
      repairer_.MarkRowsSuspect(sync_plan.removals);
    } else if (remedy == Rejections::Remedy::kRewrite) {
      tables_ = sync_plan.rewrite ? TableState::kReplacing : TableState::kUnverified;
    }
    // Rows in the kernel may have these numbers until they are deleted.
    if (ahead || in_parts || applied.outcome == nft::ApplyOutcome::kUnknown) {
      leftovers_.Add({}, std::exchange(sync_plan.new_numbers, {}));
    }
    planner_.Undo(sync_plan);
    result.outcome = SyncResult::Outcome::kFailed;
    return;
  }
  result.outcome = SyncResult::Outcome::kCommitted;
  result.elements = sync_plan.plan.transaction().element_count() + sync_plan.ahead.element_count() +
                    sync_plan.removals.element_count();
}

// Commits the phases before the change of the plan. After a failure, the plan contains only the
// failed elements: with a change that also contains the phases, packets would find a part of them.
nft::ApplyResult Reconciler::CommitFirst(SyncPlan& sync_plan) {
  nft::ApplyResult result;
  for (const FirstPhase& phase : sync_plan.first) {
    phase.rows.ForEachPart(kElementsPerCommit, [&](nft::Transaction part) {
      if (!result.error.ok()) return;
      result = kernel_.Apply(part);
      if (result.outcome != nft::ApplyOutcome::kRejected) sync_plan.ahead.AddElements(part);
      if (!result.error.ok()) sync_plan.plan.transaction() = std::move(part);
    });
    if (!result.error.ok()) break;
    if (phase.await_packets) AwaitPackets();
  }
  return result;
}

// Returns OK if the kernel has committed the attempt. If the markers do not prove the outcome, the
// next Sync rewrites the tables.
absl::Status Reconciler::Settle(const nft::ApplyResult& result, const Marker& attempted) {
  if (result.outcome == nft::ApplyOutcome::kCommitted) return absl::OkStatus();
  if (result.outcome == nft::ApplyOutcome::kRejected) return result.error;
  for (const Family family : kFamilies) {
    const auto element = kernel_.ReadElement({family, kMarker}, MarkerKey().bytes());
    const bool known = element.ok() && *element;
    const auto found = [&](const Marker& marker) {
      return std::ranges::equal((*element)->data, marker.ToRows(family)[0].data.bytes());
    };
    if (known && found(attempted)) continue;
    unknown_generation_ = attempted.generation;
    if (!known || !found(applied_.marker())) Invalidate();
    return Annotate(result.error, known ? "not committed" : "commit outcome unknown");
  }
  return absl::OkStatus();
}

// The plan was committed, or was empty. After a rewrite, the tables contain exactly the planned
// rows and rules, and the rows of the plan's removals.
void Reconciler::Advance(SyncPlan& sync_plan, const Marker& marker) {
  if (sync_plan.rewrite) {
    tables_ = TableState::kCurrent;
    leftovers_.Clear();
    repairer_.TablesWritten(std::move(sync_plan.specs));
  } else if (sync_plan.specs[0] != nullptr) {
    repairer_.RulesWritten(std::move(sync_plan.specs));
  }
  planner_.Committed();
  applied_.Advance(sync_plan.plan, sync_plan.rewrite, std::move(sync_plan.services),
                   std::move(sync_plan.node_rows), marker);
  leftovers_.Add(std::move(sync_plan.removals), sync_plan.old_numbers);
  if (sync_plan.rewrite) leftovers_.Add({}, planner_.ForgetFoundPorts());
  node_.Committed();
  rejections_.Committed(sync_plan.dirty);
}

// Starts to save the objects that have changed since the last call. `revision` is the revision of
// the tables after the commit of these changes.
void Reconciler::SaveObjects(uint64_t revision) {
  auto keys = store_.TakeTouched();
  if (disk_ == nullptr) return;
  SavedBatch batch{.everything = outdated_ || disk_->needs_everything(),
                   .partial = partial_,
                   .revision = revision};
  if (batch.everything) {
    outdated_ = false;
    keys.clear();
    store_.ForEachObject([&](Kind kind, const std::string& key) { keys.emplace(kind, key); });
  }
  // In the order of the database's index, so that fewer of its pages are read and written.
  for (const auto& [kind, key] : keys) {
    const Change stored = store_.Stored(kind, key);
    SavedObject& object = batch.objects.emplace_back();
    object = {.kind = kind, .key = key, .first_seen = stored.first_seen.value_or(0)};
    if (const std::string* message = stored.message()) object.message = *message;
  }
  disk_->Write(std::move(batch));
}

// If the objects could not be saved, the marker must show it before the batches are answered.
// Otherwise, the next run would use older objects.
void Reconciler::AwaitSaved() {
  const bool saved = disk_ != nullptr && disk_->Await() && !outdated_;
  if (saved || !applied_.marker().saved) return;
  const Marker marker = NextMarker();
  nft::Transaction transaction;
  ReplaceMarker(&applied_.marker(), marker, transaction);
  // After a failure, MarkerIsOutdated() leads to the next attempt.
  if (Settle(kernel_.Apply(transaction), marker).ok()) applied_.ContinueFrom(marker);
}

// Of the findings of the node, `result` contains only new ones, because changes of Services do not
// cause them.
void Reconciler::UpdateFindings(SyncPlan& sync_plan, SyncResult& result) {
  result.findings = std::move(sync_plan.findings);
  std::ranges::move(rejections_.TakeFindings(), std::back_inserter(result.findings));
  standing_findings_.Replace(sync_plan.dirty, result.findings);
  const uint64_t sequence = store_.TakeNodeSequence();
  const NodePortUse use = node_.UseNow(node_.facts());
  if (!sync_plan.node_rows && use == node_port_use_) return;
  node_port_use_ = use;
  std::vector<PlanFinding> of_node;
  for (Finding& finding : node_.Findings(node_.facts())) {
    of_node.push_back({.sequence = sequence, .finding = std::move(finding)});
  }
  standing_findings_.Replace({DirtyService{}}, of_node);
  std::ranges::copy_if(of_node, std::back_inserter(result.findings),
                       std::not_fn(&PlanFinding::known));
}

// Collects the facts about a committed plan that its followers need. Moves the keys out of
// sync_plan.dirty.
void Reconciler::Announce(SyncPlan& sync_plan, SyncResult& result) {
  result.endpoints.any = sync_plan.node_rows.has_value();
  if (sync_plan.node_rows) {
    std::vector<IpAddress> addresses =
        HealthCheckAddresses(options_.node_port_addresses, node_.ThisNode(), node_.interfaces());
    if (addresses != health_check_addresses_) {
      result.health_check_addresses = health_check_addresses_ = std::move(addresses);
    }
  }
  result.udp.reserve(sync_plan.dirty.size());
  const auto& [localhost_v4, localhost_v6] = options_.localhost_node_ports;
  for (DirtyService& dirty : sync_plan.dirty) {
    const ServiceMoves moves = store_.TakeMoves(dirty.key);
    const ServiceHash service = HashOfService(dirty.key);
    const ServiceEntry* entry = store_.Find(dirty.key);
    const ServiceRows* rows = applied_.Find(dirty.key);
    result.endpoints.any |= moves.any;
    for (const IpAddress& address : moves.added) {
      result.endpoints.added.emplace_back(service, address);
    }
    const bool resets = rows != nullptr && rows->tcp_resets != TcpResets::kOff;
    for (const auto& [address, port] : moves.left) {
      if (resets) result.endpoints.left.emplace_back(service, EndpointAddress{address, port});
    }
    const std::optional<HealthCheck> check = HealthCheckOf(entry, store_.claims());
    AddChange(dirty.key, check, check.has_value(), health_checked_, result.health_checks);
    if (localhost_v4 || localhost_v6) {
      LocalhostNodePorts ports = LocalhostNodePortsOf(entry, store_.claims(), node_.facts().place,
                                                      options_.localhost_node_ports);
      const bool has = !ports.empty();
      AddChange(dirty.key, std::move(ports), has, on_localhost_, result.localhost_node_ports);
    }
    UdpPorts ports = MakeUdpPorts(entry, rows);
    result.udp.emplace_back(std::move(dirty.key), std::move(ports));
  }
}

nft::ApplyResult Reconciler::RemoveLeftovers() {
  if (!leftovers_.due()) {
    const uint64_t wait = leftovers_.BeginWait();
    AwaitPackets();
    leftovers_.EndWait(wait);
  }
  nft::ApplyResult applied = kernel_.Apply(leftovers_.Next());
  if (applied.outcome != nft::ApplyOutcome::kCommitted) {
    // Another process may have deleted some of the elements. Repair() checks each of them.
    repairer_.MarkRowsSuspect(leftovers_.Next());
  }
  leftovers_.ForgetNext();
  return applied;
}

}  // namespace svcmap::proxy
