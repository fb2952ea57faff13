#include "proxy/reconcile/schedule.h"

#include <algorithm>

#include "proxy/repair/repairer.h"

namespace svcmap::proxy {
namespace {

// Interval for checking whether saving the state has failed and must be retried.
constexpr std::chrono::seconds kCheckSaving{1};
// Maximum delay of the next repair after commits of other processes interrupted a repair.
constexpr std::chrono::milliseconds kLongestDisturbance{50};

}  // namespace

Schedule::Time Schedule::Next(const Work& work, Time now) const {
  if (work.leftovers || (work.changes && failed_commits() == 0)) return now;
  // While a commit waits for its next attempt, repairs may remove the cause of its failure.
  if (work.changes) return work.suspects ? std::min(commit_at_, repair_at_) : commit_at_;
  if (work.suspects) return repair_at_;
  Time next = audit_at_;
  if (work.rejected) next = std::min(next, rejected_at_);
  if (work.saves_state) next = std::min(next, now + kCheckSaving);
  return next;
}

void Schedule::RepairDone(Time start, Time now) {
  repairs_.Success();
  repair_at_ = now + (now - start);
}

void Schedule::RepairFailed(Time now, bool disturbed) {
  Clock::duration wait = repairs_.Failure();
  if (disturbed) wait = std::min<Clock::duration>(wait, kLongestDisturbance);
  repair_at_ = now + wait;
}

void Schedule::Rewritten(Time now, Clock::duration took) {
  repair_at_ = std::max(repair_at_, now + took);
}

// Makes one audit last for one cycle, or longer if the machine is so slow that the CPU share would
// be exceeded.
void Schedule::Audited(Time now, size_t rows, std::chrono::nanoseconds cpu_time) {
  const auto steps = static_cast<Clock::rep>(std::max<size_t>(rows, 1) / Repairer::kRows + 1);
  const auto by_cycle = std::chrono::duration_cast<Clock::duration>(options_.audit_cycle) / steps;
  const auto by_share =
      std::chrono::duration_cast<Clock::duration>(cpu_time / options_.audit_share);
  audit_at_ = now + std::max(by_cycle, by_share);
}

}  // namespace svcmap::proxy
