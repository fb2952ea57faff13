// Repairs changes by other processes.
#include <numeric>
#include <utility>

#include "proxy/diff/removals.h"
#include "proxy/reconcile/reconciler.h"
#include "proxy/repair/restoration.h"

namespace svcmap::proxy {
namespace {

// Consecutive failed repairs before the tables are rewritten.
constexpr int kRepairPatience = 3;

}  // namespace

RepairResult Reconciler::Repair() { return ApplyRepair(repairer_.CheckNext()); }

RepairResult Reconciler::Audit() { return ApplyRepair(repairer_.Audit()); }

// Deletes source ranges that remained after a failed commit. The kernel rejects new ranges that
// overlap with them. Ignores a set that cannot be read, which stays suspect: constant commits of
// other processes prevent reading, but must not delay a plan that the kernel may accept.
absl::Status Reconciler::RepairSourceRanges() {
  for (const Family family : kFamilies) {
    for (const SetIndex set : kSourceSets) {
      absl::StatusOr<Damage> damage = repairer_.CheckSourceRanges({family, set});
      if (!damage.ok()) continue;
      const RepairResult result = ApplyRepair(std::move(damage));
      if (result.outcome == RepairResult::Outcome::kFailed) return result.error;
    }
  }
  return absl::OkStatus();
}

RepairResult Reconciler::ApplyRepair(absl::StatusOr<Damage> damage) {
  RepairResult result;
  if (!damage.ok()) {
    result.outcome = RepairResult::Outcome::kFailed;
    result.error = damage.status();
    return result;
  }
  if (!damage->found()) return result;
  if (damage->rewrite == Damage::Rewrite::kNo) return CommitRepair(*damage);
  tables_ =
      Next(tables_, damage->rewrite == Damage::Rewrite::kInPlace ? TableEvent::kMuchDamage
                                                                 : TableEvent::kTablesDamaged);
  result.outcome = RepairResult::Outcome::kRewrite;
  result.elements = damage->elements;
  result.chains = damage->chains;
  return result;
}

RepairResult Reconciler::CommitRepair(Damage& damage) {
  RepairResult result{.elements = damage.elements, .chains = damage.chains};
  const auto start = Clock::now();
  const nft::ApplyResult applied = ApplyInParts(damage.repair);
  result.duration = Clock::now() - start;
  if (applied.outcome == nft::ApplyOutcome::kCommitted) {
    journal_.CountCommit();
    failed_repairs_ = 0;
    result.outcome = RepairResult::Outcome::kRepaired;
    return result;
  }
  // Another process may have changed the tables again, so the same rows are checked again.
  repairer_.NotRepaired();
  result.outcome = RepairResult::Outcome::kFailed;
  result.error = applied.error;
  if (++failed_repairs_ >= kRepairPatience) {
    tables_ = Next(tables_, TableEvent::kRepairsFailed);
    failed_repairs_ = 0;
  }
  return result;
}

// Adds elements in bounded commits, first slots first, so that Services work early. A transaction
// that deletes elements or changes rules is one commit, because an element that is replaced must
// not be missing between two commits. The caller counts the last commit.
nft::ApplyResult Reconciler::ApplyInParts(nft::Transaction& transaction) {
  if (!transaction.repairs().empty() || transaction.deletion_count() > 0 ||
      transaction.element_count() <= kElementsPerCommit) {
    return kernel_.Apply(transaction);
  }
  PutFirstSlotsFirst(transaction);
  nft::ApplyResult result;
  size_t before = 0;  // Number of elements before this part.
  transaction.ForEachPart(kElementsPerCommit, [&](nft::Transaction part) {
    if (result.outcome != nft::ApplyOutcome::kCommitted) return;
    if (before > 0) journal_.CountCommit();  // Counts the previous part.
    result = kernel_.Apply(part);
    if (result.failed_element) *result.failed_element += before;
    before += part.element_count();
  });
  return result;
}

// Writes the applied rows again after another process has deleted the tables. Connections to
// Services fail until then. Therefore changes of the desired state are not planned before, and the
// state is saved afterwards.
absl::Status Reconciler::RestoreTables(SyncResult& result) {
  static const SharedCounts kNone;
  SyncPlan tables(kNone);
  tables.rewrite = true;
  planner_.RulesRestored();
  tables.specs = MakeSpecs(ruleset_, numbering_.timers.seconds());
  rewriter_.Replace(tables_, tables);
  nft::Transaction creation = std::move(tables.plan.transaction());
  result.recreated = true;
  const auto start = Clock::now();
  nft::ApplyResult applied;
  const auto commit = [&](nft::Transaction part) {
    creation.AddElements(std::move(part));
    applied = kernel_.Apply(std::exchange(creation, nft::Transaction()));
    if (applied.outcome != nft::ApplyOutcome::kCommitted) return false;
    journal_.CountCommit();
    return true;
  };
  const bool restored = CommitAppliedRows(applied_, kElementsPerCommit, commit);
  result.duration = Clock::now() - start;
  if (!restored) {
    HandleRejection(tables, applied);
    return applied.error;
  }
  TablesRewritten(tables);
  journal_.TablesRestored(TrustNow());
  result.outcome = SyncResult::Outcome::kCommitted;
  result.elements = applied_rows();
  result.replaced_chains = std::move(tables.replaced_chains);
  return absl::OkStatus();
}

size_t Reconciler::applied_rows() const {
  int64_t rows = 0;
  for (const auto& family : applied_.counts())
    rows += std::accumulate(family.begin(), family.end(), int64_t{0});
  return static_cast<size_t>(rows);
}

void Reconciler::NoteGeneration(uint32_t generation) {
  if (Verified()) journal_.NoteGeneration(generation);
}

}  // namespace svcmap::proxy
