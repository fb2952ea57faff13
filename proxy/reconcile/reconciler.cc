#include "proxy/reconcile/reconciler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "nft/base/status.h"
#include "proxy/diff/phases.h"

namespace svcmap::proxy {
namespace {

nft::SetRef MarkerSet(Family family) { return {family, kMarker}; }

}  // namespace

Reconciler::Reconciler(nft::Kernel& kernel, ReconcilerOptions options, ObjectWriter* disk)
    : kernel_(kernel),
      options_(std::move(options)),
      planner_(ruleset_, options_, store_, applied_, leftovers_, node_, rejections_, numbering_),
      disk_(disk) {
  if (disk_ != nullptr) store_.KeepTouched();
}

bool Reconciler::Pending() const {
  return tables_ != TableState::kCurrent || store_.dirty().size() > 0 ||
         rejections_.has_findings() || node_.Changed() || MarkerIsOutdated();
}

bool Reconciler::Verified() const {
  return tables_ == TableState::kCurrent && !repairer_.has_suspects();
}

Marker Reconciler::NextMarker() {
  return {.generation = NextRevision(),
          .saved = IsSaving(),
          .next_numbers = numbering_.numbers.Next(),
          .timers = numbering_.timers.seconds()};
}

SyncResult Reconciler::Sync(size_t element_limit) {
  SyncResult result;
  if (Pending()) Program(element_limit, result);
  if (result.outcome == SyncResult::Outcome::kFailed) return result;
  const auto start = Clock::now();
  if (result.outcome == SyncResult::Outcome::kNothing) SaveObjects(revision());
  AwaitSaved();
  result.save_duration = Clock::now() - start;
  result.may_answer = !applied_.marker().saved || IsSaving();
  return result;
}

void Reconciler::Program(size_t element_limit, SyncResult& result) {
  const auto began = Clock::now();
  FreeNumbers();
  // The disk thread writes during the plan and the commit. If the plan is empty, Sync() saves the
  // unchanged revision.
  const bool saves = IsSaving();
  if (saves) SaveObjects(NextRevision());
  node_.Follow();
  absl::StatusOr<SyncPlan> sync_plan = MakePlan(element_limit);
  result.repairs = std::exchange(repairs_, {});
  if (!sync_plan.ok()) {
    result.outcome = SyncResult::Outcome::kFailed;
    result.error = sync_plan.status();
    return;
  }
  Marker marker = applied_.marker();
  if (!sync_plan->empty() || MarkerIsOutdated()) {
    result.recreated = sync_plan->rewrite;
    marker = NextMarker();
    DivideIntoPhases(*sync_plan);
    ReplaceMarker(sync_plan->has_marker ? &applied_.marker() : nullptr, marker,
                  sync_plan->plan.transaction());
    result.plan_duration = Clock::now() - began;
    if (!saves) SaveObjects(marker.generation);
    Commit(*sync_plan, marker, result);
    if (result.outcome == SyncResult::Outcome::kFailed) return;
  } else if (sync_plan->rewrite) {
    TablesRewritten(sync_plan->specs);
  }
  const bool node_changed = sync_plan->node_rows.has_value();
  Advance(*sync_plan, marker);
  result.replaced_chains = std::move(sync_plan->replaced_chains);
  UpdateFindings(node_changed, *sync_plan, result);
  Announce(*sync_plan, result);
}

absl::StatusOr<SyncPlan> Reconciler::MakePlan(size_t element_limit) {
  if (std::exchange(plan_failed_, false)) RepairBeforePlan();
  if (tables_ != TableState::kCurrent) return MakeRewrite(element_limit);
  SyncPlan sync_plan = planner_.MakeChanges(element_limit);
  const bool collides = CollidesWithOldRows(sync_plan);
  const bool many_ranges = planner_.RemovesManyRanges(sync_plan);
  if (collides || many_ranges) planner_.Undo(sync_plan);
  if (collides) RepairBeforePlan();
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
  if (collides || many_ranges) sync_plan = planner_.MakeChanges(element_limit);
  planner_.ChangeRules(sync_plan);
  return sync_plan;
}

// Continuous commits of other processes may prevent reading. After many attempts, the tables are
// replaced without being read.
absl::StatusOr<SyncPlan> Reconciler::MakeRewrite(size_t element_limit) {
  constexpr int kPatience = 20;
  // The plan may immediately delete elements of earlier commits, including commits of the previous
  // run. Packets may still reach these elements.
  if (!leftovers_.empty() || unknown_generation_ > revision() || next_numbers_) AwaitPackets();
  if (tables_ == TableState::kUnverified) {
    const absl::Status read = rewriter_.Read();
    if (!read.ok() && ++failed_reads_ < kPatience) return read;
    if (!read.ok()) tables_ = TableState::kReplacing;
    failed_reads_ = 0;
  }
  const bool replaces = tables_ == TableState::kReplacing;
  TakeNumbers(replaces ? nullptr : rewriter_.found_elements());
  // The plan deletes all elements of Services that it does not contain.
  if (numbering_.found != nullptr) element_limit = SIZE_MAX;
  SyncPlan sync_plan = planner_.MakeRewrite(element_limit);
  if (replaces) {
    rewriter_.Replace(sync_plan);
  } else if (absl::Status written = rewriter_.Write(sync_plan); !written.ok()) {
    planner_.Undo(sync_plan);
    return written;
  }
  return sync_plan;
}

// A rewrite has read the leftovers, so only other plans can collide.
bool Reconciler::CollidesWithOldRows(const SyncPlan& sync_plan) const {
  return leftovers_.CollideWith(sync_plan.plan.transaction()) ||
         (sync_plan.plan.source_rows_added() > 0 && repairer_.has_known_suspects());
}

void Reconciler::DivideIntoPhases(SyncPlan& sync_plan) const {
  nft::Transaction& transaction = sync_plan.plan.transaction();
  PhaseContext context{.masquerades_cluster_ips = MasqueradesClusterIps(options_.ruleset)};
  context.freed = sync_plan.rewrite ? sync_plan.gone_ports : sync_plan.old_numbers;
  context.ended_local_sets =
      sync_plan.rewrite ? sync_plan.ended_local_sets : sync_plan.plan.ended_local_sets();
  Phases phases = SplitIntoPhases(std::move(transaction), context);
  sync_plan.first = std::move(phases.first);
  transaction = std::move(phases.change);
  sync_plan.removals = std::move(phases.removals);
}

// Sets the outcome and the durations. After a failure, the Services are dirty again.
void Reconciler::Commit(SyncPlan& sync_plan, const Marker& marker, SyncResult& result) {
  const auto start = Clock::now();
  CommitFirst(sync_plan);
  nft::Transaction& transaction = sync_plan.plan.transaction();
  const bool in_parts = !transaction.creations().empty();
  const nft::ApplyResult applied =
      in_parts ? ApplyInParts(transaction) : kernel_.Apply(transaction);
  const auto end = Clock::now();
  result.error = Settle(applied, marker);
  const bool committed = result.error.ok();
  if (committed && sync_plan.rewrite) TablesRewritten(sync_plan.specs);
  result.duration = end - start;
  plan_failed_ = !committed;
  if (!committed) {
    const bool ahead = !sync_plan.ahead.empty();
    if (ahead) repairer_.MarkRowsSuspect(sync_plan.ahead);
    switch (rejections_.Handle(tables_, sync_plan, applied, applied_)) {
      case Rejections::Remedy::kRetry:
        break;
      case Rejections::Remedy::kCheckRows:
        repairer_.MarkRowsSuspect(sync_plan.plan.transaction());
        repairer_.MarkRowsSuspect(sync_plan.removals);
        break;
      case Rejections::Remedy::kRewrite:
        tables_ = sync_plan.rewrite ? TableState::kReplacing : TableState::kUnverified;
        break;
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

// Commits the phases before the change of the plan.
void Reconciler::CommitFirst(SyncPlan& sync_plan) {
  bool failed = false;
  for (const FirstPhase& phase : sync_plan.first) {
    phase.rows.ForEachPart(kElementsPerCommit, [&](nft::Transaction part) {
      const auto outcome = failed ? nft::ApplyOutcome::kRejected : kernel_.Apply(part).outcome;
      failed = outcome != nft::ApplyOutcome::kCommitted;
      if (outcome != nft::ApplyOutcome::kRejected) sync_plan.ahead.AddElements(part);
      // After a failure, the change contains the remaining elements. Its commit reports the error.
      if (failed) sync_plan.plan.transaction().AddElements(std::move(part));
    });
    if (phase.await_packets && !failed) AwaitPackets();
  }
}

// Returns OK if the kernel has committed the attempt. If the markers do not prove the outcome, the
// next Sync rewrites the tables.
absl::Status Reconciler::Settle(const nft::ApplyResult& result, const Marker& attempted) {
  if (result.outcome == nft::ApplyOutcome::kCommitted) return absl::OkStatus();
  if (result.outcome == nft::ApplyOutcome::kRejected) return result.error;
  for (const Family family : kFamilies) {
    const auto element = kernel_.ReadElement(MarkerSet(family), MarkerKey().bytes());
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

// The tables contain exactly the planned rows and rules, and the rows of the plan's
// removals.
void Reconciler::TablesRewritten(Specs specs) {
  tables_ = TableState::kCurrent;
  rewriter_.Forget();
  leftovers_.Clear();
  repairer_.TablesWritten(std::move(specs));
}

// The plan was committed, or was empty.
void Reconciler::Advance(SyncPlan& sync_plan, const Marker& marker) {
  if (!sync_plan.rewrite && sync_plan.specs[0] != nullptr) {
    repairer_.RulesWritten(std::move(sync_plan.specs));
  }
  planner_.Committed();
  applied_.Advance(sync_plan.plan, sync_plan.rewrite, std::move(sync_plan.services),
                   std::move(sync_plan.node_rows), marker);
  leftovers_.Add(std::move(sync_plan.removals), sync_plan.old_numbers);
  if (sync_plan.rewrite) ForgetFoundPorts();
  FreeNumbers();
  node_.Committed();
  rejections_.Committed(sync_plan.dirty);
}

// Starts to save the objects that have changed since the last call. `revision` is the revision of
// the tables after the commit of these changes.
void Reconciler::SaveObjects(uint64_t revision) {
  if (disk_ == nullptr) return;
  SavedBatch batch{.everything = outdated_ || disk_->needs_everything(),
                   .partial = partial_,
                   .revision = revision};
  const auto add = [&](Kind kind, const std::string& key) {
    const Change stored = store_.Stored(kind, key);
    SavedObject& object = batch.objects.emplace_back();
    object = {.kind = kind, .key = key, .first_seen = stored.first_seen.value_or(0)};
    if (const std::string* message = stored.message()) object.message = *message;
  };
  const auto touched = store_.TakeTouched();
  if (batch.everything) {
    outdated_ = false;
    store_.ForEachObject(add);
  } else {
    for (const auto& [kind, key] : touched) add(kind, key);
  }
  disk_->Write(std::move(batch));
}

void Reconciler::RetrySaving() {
  if (disk_ != nullptr && disk_->needs_everything()) SaveObjects(revision());
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
void Reconciler::UpdateFindings(bool node_changed, SyncPlan& sync_plan, SyncResult& result) {
  result.findings = std::move(sync_plan.findings);
  std::ranges::move(rejections_.TakeFindings(), std::back_inserter(result.findings));
  standing_findings_.Replace(sync_plan.dirty, result.findings);
  const uint64_t sequence = store_.TakeNodeSequence();
  const NodePortUse use = node_.UseNow(node_.facts());
  if (!node_changed && use == node_port_use_) return;
  node_port_use_ = use;
  std::vector<PlanFinding> of_node;
  for (Finding& finding : node_.Findings(node_.facts())) {
    of_node.push_back({.sequence = sequence, .finding = std::move(finding)});
  }
  standing_findings_.Replace({DirtyService{}}, of_node);
  std::ranges::copy_if(of_node, std::back_inserter(result.findings),
                       std::not_fn(&PlanFinding::known));
}

void Reconciler::AwaitPackets() const {
  if (options_.await_packets) options_.await_packets();
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
  FreeNumbers();
  return applied;
}

// Releases numbers of deleted elements when no element with these numbers can remain in the kernel.
void Reconciler::FreeNumbers() {
  if (!Verified()) return;
  numbering_.numbers.Release(leftovers_.TakeFreeNumbers());
}

}  // namespace svcmap::proxy
