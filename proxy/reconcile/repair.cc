// How the reconciler mends what others have done.
#include <numeric>

#include "proxy/reconcile/sync_plan.h"

namespace svcmap::proxy {
namespace {

// Repairs that fail one after the other before the tables are written anew.
constexpr int kRepairPatience = 3;

}  // namespace

RepairResult Reconciler::Repair() { return ApplyRepair(repairer_.CheckNext()); }

RepairResult Reconciler::Audit() { return ApplyRepair(repairer_.Audit()); }

RepairResult Reconciler::ApplyRepair(absl::StatusOr<Damage> damage) {
  RepairResult result;
  if (!damage.ok()) {
    result.outcome = RepairResult::Outcome::kFailed;
    result.error = damage.status();
    return result;
  }
  if (!damage->found()) return result;
  result.elements = damage->elements;
  result.chains = damage->chains;
  if (damage->rewrite != Damage::Rewrite::kNo) {
    result.outcome = RepairResult::Outcome::kRewrite;
    recreate_ = true;
    in_place_ = damage->rewrite == Damage::Rewrite::kInPlace;
    return result;
  }
  const auto start = std::chrono::steady_clock::now();
  const nft::ApplyResult applied = kernel_.Apply(damage->repair);
  result.duration = std::chrono::steady_clock::now() - start;
  if (applied.outcome == nft::ApplyOutcome::kCommitted) {
    if (known_generation_) ++*known_generation_;
    failed_repairs_ = 0;
    result.outcome = RepairResult::Outcome::kRepaired;
    return result;
  }
  // Whoever was there may have been there again. What became of it is seen by looking once more.
  repairer_.NotRepaired();
  result.outcome = RepairResult::Outcome::kFailed;
  result.error = applied.error;
  if (++failed_repairs_ >= kRepairPatience) {
    Invalidate();
    failed_repairs_ = 0;
  }
  return result;
}

size_t Reconciler::applied_rows() const {
  int64_t rows = 0;
  for (const auto& family : applied_.counts())
    rows += std::accumulate(family.begin(), family.end(), int64_t{0});
  return static_cast<size_t>(rows);
}

void Reconciler::NoteGeneration(uint32_t generation) {
  if (!Verified() || (known_generation_ == generation && !outcome_open_)) return;
  known_generation_ = generation;
  LogRemoval();
}

}  // namespace svcmap::proxy
