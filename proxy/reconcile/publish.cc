// Publishes the status, and notifies observers.
#include "proxy/reconcile/loop.h"

namespace svcmap::proxy {

Phase Loop::CurrentPhase() const {
  return PhaseOf({.received = received_,
                  .programmed = programmed_,
                  .tables = reconciler_.tables(),
                  .commit_failed = schedule_.failed_commits() > 0,
                  .suspects = reconciler_.HasSuspects()});
}

// Called at the end of a turn, and before Acks are sent: a client that has received an Ack finds
// its batch in the status. `answered`: every accepted batch that needs no further commit has its
// Ack, or gets it next.
void Loop::PublishTurn(bool answered) {
  const bool idle = !reconciler_.Pending() && answered;
  const bool verified = !Holding() && reconciler_.Verified();
  if (idle && !Holding() && !InSnapshot() && schedule_.failed_commits() == 0) {
    programmed_ = received_;
  }
  const std::lock_guard lock(mutex_);
  status_.phase = CurrentPhase();
  status_.complete = programmed_ >= Received::kStored;
  status_.confirmed = programmed_ == Received::kComplete;
  // An idle loop makes no turns. The tables were verified until this turn.
  if (verified || status_.verified) status_.last_verified = Clock::now();
  status_.verified = verified;
  status_.held_snapshot.reset();
  if (held_) status_.held_snapshot = held_->snapshot;
  status_.stages = stages_;
  if (!Holding()) reconciler_.FillStatus(status_);
  if (idle || Holding()) clock_.Synced(arrivals_.oldest());
  if (!Holding() && status_.pending_services == 0) status_.pending_changes = {};
  status_.waiting_changes = arrivals_.changes();
}

void Loop::Notify(RepairResult result) {
  if (result.outcome == RepairResult::Outcome::kNothing) return;
  {
    const std::lock_guard lock(mutex_);
    status_.last_error = std::string(result.error.message());
    if (result.outcome != RepairResult::Outcome::kFailed) {
      ++status_.repairs;
      status_.repaired_elements += result.elements;
      status_.repaired_chains += result.chains;
      status_.elements_written += result.elements;
    }
  }
  result.damage = damage_;
  result.process = damaged_by_;
  if (options_.on_repair) options_.on_repair(result);
  if (result.outcome == RepairResult::Outcome::kFailed) return;
  damage_.clear();
  damaged_by_.clear();
}

void Loop::CountStages(const SyncResult& result, Clock::time_point started) {
  if (result.outcome == SyncResult::Outcome::kNothing) return;
  const auto follow =
      Clock::now() - started - result.plan_duration - result.save_duration - result.duration;
  stages_.Add(Stage::kPlan, result.plan_duration);
  stages_.Add(Stage::kSave, result.save_duration);
  stages_.Add(Stage::kKernel, result.duration);
  stages_.Add(Stage::kFollow, follow);
}

void Loop::Publish(SyncResult& result) {
  const auto now = std::chrono::system_clock::now();
  const bool failed = result.outcome == SyncResult::Outcome::kFailed;
  if (!failed) result.programmed = triggers_.Programmed(FirstUnprogrammed(), now);
  {
    const std::lock_guard lock(mutex_);
    status_.last_error = std::string(result.error.message());
    status_.failures += failed ? 1 : 0;
    if (!failed) {
      status_.last_sync = now;
      status_.programming_latency = triggers_.latency();
    }
    if (result.outcome == SyncResult::Outcome::kCommitted) {
      ++status_.commits;
      status_.elements_written += result.elements;
      status_.recreations += result.recreated ? 1 : 0;
      status_.last_commit_duration = result.duration;
      status_.last_commit_elements = result.elements;
      status_.last_commit_time = now;
    }
  }
  PublishTurn(/*answered=*/!failed && result.may_answer);
  if (options_.on_sync) options_.on_sync(result, status());
}

}  // namespace svcmap::proxy
