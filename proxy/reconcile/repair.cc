// Repairs changes by other processes.
#include <algorithm>
#include <utility>

#include "proxy/diff/phases.h"
#include "proxy/reconcile/reconciler.h"

namespace svcmap::proxy {
namespace {

// Consecutive failed repairs before the tables are rewritten.
constexpr int kRepairPatience = 3;

}  // namespace

// Leftovers are deleted before, because a repair would find unknown elements. Gives up after
// consecutive failures: constant commits of other processes can prevent the comparison of a large
// set.
void Reconciler::RepairBeforePlan() {
  while (!leftovers_.empty()) RemoveLeftovers();
  constexpr int kMaxFailures = 8;
  int failures = 0;
  while (HasSuspects() && repairer_.has_known_suspects() && failures < kMaxFailures) {
    const RepairResult result = Repair();
    failures = result.outcome == RepairResult::Outcome::kFailed ? failures + 1 : 0;
    if (result.outcome != RepairResult::Outcome::kNothing) repairs_.push_back(result);
  }
}

// Leftovers are deleted before, because suspect sets are compared with the applied rows.
RepairResult Reconciler::Repair() {
  while (repairer_.has_known_suspects() && !leftovers_.empty()) RemoveLeftovers();
  absl::StatusOr<Damage> damage = repairer_.CheckNext();
  if (!damage.ok()) {
    return {.outcome = RepairResult::Outcome::kFailed, .error = damage.status()};
  }
  RepairResult result{.elements = damage->elements, .chains = damage->chains};
  if (!damage->found()) return result;
  if (damage->rewrite) {
    Invalidate();
    result.outcome = RepairResult::Outcome::kRewrite;
    return result;
  }
  const auto start = Clock::now();
  const nft::ApplyResult applied = ApplyInParts(damage->repair);
  result.duration = Clock::now() - start;
  if (applied.outcome == nft::ApplyOutcome::kCommitted) {
    failed_repairs_ = 0;
    result.outcome = RepairResult::Outcome::kRepaired;
    return result;
  }
  // Another process may have changed the tables again, so the same rows are checked again.
  repairer_.MarkSuspect(damage->checked);
  result.outcome = RepairResult::Outcome::kFailed;
  result.error = applied.error;
  if (++failed_repairs_ >= kRepairPatience) {
    Invalidate();
    failed_repairs_ = 0;
  }
  return result;
}

// Creates tables and adds elements in bounded commits, first slots first, so that Services work
// early. A transaction that deletes or changes more than the marker is one commit, because what is
// replaced must not be missing between two commits.
nft::ApplyResult Reconciler::ApplyInParts(nft::Transaction& transaction) {
  bool deletes = false;
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    deletes |= verb == nft::Verb::kDelete && element.set.set != kMarker;
  });
  if (deletes || !transaction.repairs().empty() || !transaction.drops().empty() ||
      transaction.element_count() <= kElementsPerCommit) {
    return kernel_.Apply(transaction);
  }
  PutFirstSlotsFirst(transaction);
  nft::ApplyResult result;
  size_t before = 0;  // Number of elements before this part.
  transaction.ForEachPart(kElementsPerCommit, [&](nft::Transaction part) {
    if (result.outcome != nft::ApplyOutcome::kCommitted) return;
    if (before == 0) {
      for (const auto& creation : transaction.creations()) part.CreateTable(creation);
    }
    result = kernel_.Apply(part);
    if (result.failed_element) *result.failed_element += before;
    before += part.element_count();
  });
  return result;
}

}  // namespace svcmap::proxy
