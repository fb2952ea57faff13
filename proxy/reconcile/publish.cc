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
  status_.audits = reconciler_.audits();
  status_.rejected_services = reconciler_.rejected_services();
  if (idle || Holding()) clock_.Synced(arrivals_.oldest());
  if (idle && !Holding()) status_.pending_changes = {};
  status_.waiting_changes = arrivals_.changes();
}

void Loop::Notify(const RepairResult& result) {
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
  if (options_.on_repair) options_.on_repair({result, damage_, damaged_by_});
  if (result.outcome == RepairResult::Outcome::kFailed) return;
  if (options_.cleaner != nullptr && result.outcome == RepairResult::Outcome::kRepaired) {
    options_.cleaner->TablesRepaired();
  }
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

void Loop::NotifyHealthChecks(SyncResult& result) {
  if (result.health_check_addresses && options_.on_health_check_addresses) {
    options_.on_health_check_addresses(*std::move(result.health_check_addresses));
  }
  has_health_checks_ |= !result.health_checks.empty();
  if (!has_health_checks_ || !options_.on_health_checks) return;
  options_.on_health_checks(std::move(result.health_checks));
}

void Loop::NotifyForwarder(SyncResult& result) {
  if (result.localhost_node_ports.empty() || !options_.on_localhost_node_ports) return;
  options_.on_localhost_node_ports(std::move(result.localhost_node_ports));
}

// Until the state is complete, a Service may be known without all of its slices, so the cleaner
// must wait.
void Loop::NotifyCleaner(SyncResult& result) {
  if (options_.cleaner == nullptr) return;
  options_.cleaner->Update(std::move(result.udp), result.endpoints);
  if (result.recreated) options_.cleaner->TablesRepaired();
  const bool complete =
      received_ >= Received::kStored && !InSnapshot() && reconciler_.store().dirty().size() == 0;
  if (!complete) return;
  options_.cleaner->StateIsComplete();
  reconciler_.store().KeepMoves();
}

void Loop::PublishStatus(const SyncResult& result) {
  const auto now = std::chrono::system_clock::now();
  if (result.outcome != SyncResult::Outcome::kFailed) {
    triggers_.Programmed(FirstUnprogrammed(), now, options_.on_programmed);
  }
  LoopStatus status;
  {
    const std::lock_guard lock(mutex_);
    CopyCounts();
    CountResult(result, now);
    status = status_;
  }
  if (options_.on_sync) options_.on_sync(result, status);
}

// Call with the mutex locked.
void Loop::CopyCounts() {
  const Store& store = reconciler_.store();
  const Applied& applied = reconciler_.applied();
  status_.phase = CurrentPhase();
  status_.revision = reconciler_.revision();
  status_.services = store.service_count();
  status_.slices = store.slice_count();
  status_.nodes = store.nodes().size();
  status_.service_cidrs = store.service_cidrs().size();
  status_.object_bytes = store.bytes();
  status_.object_elements = store.elements();
  status_.pending_services = store.dirty().size();
  const Node* node = reconciler_.ThisNode();
  status_.node_known = node != nullptr;
  if (node != nullptr) status_.node_eligible = node->eligible;
  status_.service_ports = applied.service_ports();
  status_.elements = applied.counts();
  status_.findings = reconciler_.standing_findings();
  status_.no_local_endpoints = applied.no_local_endpoints();
}

// Call with the mutex locked.
void Loop::CountResult(const SyncResult& result, std::chrono::system_clock::time_point now) {
  status_.last_error = result.error.ok() ? "" : std::string(result.error.message());
  if (result.outcome == SyncResult::Outcome::kFailed) {
    ++status_.failures;
    return;
  }
  status_.last_sync = now;
  status_.programming_latency = triggers_.latency();
  if (status_.pending_services == 0) status_.pending_changes = {};
  if (result.outcome != SyncResult::Outcome::kCommitted) return;
  ++status_.commits;
  status_.elements_written += result.elements;
  status_.recreations += result.recreated ? 1 : 0;
  status_.last_commit_duration = result.duration;
  status_.last_commit_elements = result.elements;
  status_.last_commit_time = now;
}

}  // namespace svcmap::proxy
