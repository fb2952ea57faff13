// Decides when the loop acts without a new task: retries of failed commits, repairs, audits, and
// retries of rejected Services.
//
// Not thread-safe; owned by the reconcile loop.
#pragma once

#include <chrono>
#include <cstddef>

#include "nft/base/backoff.h"
#include "proxy/reconcile/states.h"

namespace svcmap::proxy {

struct ScheduleOptions {
  std::chrono::milliseconds first_retry{5};
  std::chrono::milliseconds last_retry{2000};
  // Duration of one audit of all applied rows, and the maximum share of one CPU for it. If both
  // conflict, the share takes precedence.
  std::chrono::milliseconds audit_cycle{std::chrono::minutes(5)};
  double audit_share = 0.015;
  // Delay of the first audit after the start.
  std::chrono::milliseconds first_audit{std::chrono::seconds(30)};
  // Interval for retrying Services that the kernel has rejected.
  std::chrono::milliseconds retry_rejected{std::chrono::minutes(1)};
};

class Schedule {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  // Work that remains for the loop.
  struct Work {
    bool changes = false;      // Desired and applied rows differ, or the tables must be rewritten.
    bool unsaved = false;      // Saving has failed and must be retried now.
    bool leftovers = false;    // Leftover elements must be deleted.
    bool suspects = false;     // The tables are current, but rows are suspect.
    bool rejected = false;     // The kernel has rejected Services.
    bool saves_state = false;  // The state is saved, which can fail at any time.
    TableState tables = TableState::kCurrent;
  };

  Schedule(const ScheduleOptions& options, Time start)
      : options_(options), audit_at_(start + options.first_audit) {}

  // Returns when the loop must act. A time in the past means immediately.
  Time Next(const Work& work, Time now) const;

  // Returns the number of consecutive failed commits.
  int failed_commits() const { return commits_.failures(); }
  bool CommitDue(Time now) const { return failed_commits() == 0 || now >= commit_at_; }
  void CommitFailed(Time now) { commit_at_ = now + commits_.Failure(); }
  void CommitSucceeded() { commits_.Success(); }

  bool RepairDue(Time now) const { return now >= repair_at_; }
  // After a repair, repairs pause for as long as the repair took, so that changes are not delayed.
  void RepairDone(Time start, Time now);
  // `disturbed` is true if commits of other processes interrupted the repair.
  void RepairFailed(Time now, bool disturbed);
  // Call Rewritten after a rewrite was committed. `took` is the duration of the rewrite.
  void Rewritten(Time now, Clock::duration took);

  bool AuditDue(Time now) const { return now >= audit_at_; }
  // Call Audited after each portion of an audit. `rows` is the number of all applied rows.
  // `cpu_time` is the CPU time of the portion.
  void Audited(Time now, size_t rows, std::chrono::nanoseconds cpu_time);

  bool RejectedDue(Time now) const { return now >= rejected_at_; }
  void RejectedRetried(Time now) { rejected_at_ = now + options_.retry_rejected; }

 private:
  const ScheduleOptions options_;
  Backoff commits_{options_.first_retry, options_.last_retry};
  Backoff repairs_{options_.first_retry, options_.last_retry};
  Time commit_at_;
  Time repair_at_;
  Time audit_at_;
  Time rejected_at_;
};

}  // namespace svcmap::proxy
