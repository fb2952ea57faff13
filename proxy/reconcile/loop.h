// The reconcile loop: the only thread that changes the store and the kernel. Any thread may submit
// batches of changes. A batch is answered when all its changes are in the kernel, when they have to
// wait for the end of a snapshot, or after repeated failures.
//
// Batches that arrive during a commit are merged (arrivals.h) and committed in one plan, and the
// latest version of each object takes effect. A load consists of all changes that arrive during a
// snapshot, or while no Service is in the kernel. A load is split into plans of about
// `max_elements` elements, so that no commit takes long. All changes of a Service are in the same
// plan. Repairs and audits take place between two commits (schedule.h).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proxy/health/health.h"
#include "proxy/reconcile/arrivals.h"
#include "proxy/reconcile/batch.h"
#include "proxy/reconcile/loop_status.h"
#include "proxy/reconcile/reconciler.h"
#include "proxy/reconcile/schedule.h"
#include "proxy/reconcile/stages.h"
#include "proxy/reconcile/states.h"
#include "proxy/reconcile/trigger_times.h"
#include "proxy/state/limits.h"

namespace svcmap::proxy {

struct LoopOptions {
  // Approximate maximum number of elements in a plan. Limits the number of batches that are merged
  // into one plan, and the size of the plans into which a load is split.
  size_t max_elements = kElementsPerCommit;
  // Like max_elements, but for the first load of this run.
  size_t first_load_elements = kElementsOfFirstLoad;
  // Number of consecutive failed syncs after which waiting batches are answered with kFailed. With
  // the default delays between retries, 8 failures take at least 0.6 s.
  int patience = 8;
  ScheduleOptions schedule;
  // Called on the loop's thread after each sync, including failed syncs and syncs without an
  // effect. Batches are answered afterwards.
  std::function<void(const SyncResult&, const LoopStatus&)> on_sync;
  // Called on the loop's thread after each repair that found differences or failed.
  std::function<void(const RepairResult&)> on_repair;
  StateLimits limits;
  // Minimum percentage for held removals. If the end of a snapshot would remove at least this
  // percentage of the objects of one kind, the objects of the snapshot are stored, but no other
  // object is removed (LossBeyond in proxy/state/store.h). 0 disables the check.
  unsigned hold_removals = 0;
};

class Loop {
 public:
  Loop(Reconciler& reconciler, LoopOptions options);
  ~Loop();  // Calls Stop().

  // `received` describes the content of the store. With kPreviousRules, the loop writes nothing to
  // the kernel before a snapshot has ended.
  void Start(Received received);
  // Waits for the commit in flight, answers waiting batches with kFailed and stops the thread. The
  // rules stay in effect.
  void Stop();

  void Submit(Batch batch);
  void SetInterfaceAddresses(NodeAddresses addresses);
  // Call Repair if another process has changed svcmap's tables. The loop checks and repairs the
  // affected rows.
  void Repair(nft::ForeignChange change);

  // Starts a controller session and discards a snapshot that the previous session left open.
  // `offered` is the state token that the controller offers. `answer` receives the token of the
  // stored state, or nullopt while rules of a previous run are in effect. It is called on the
  // loop's thread, but not if the loop stops first.
  void StartSession(std::optional<StateToken> offered,
                    std::function<void(std::optional<StateToken>)> answer);

  // Computes the effect of a batch without a mark, but changes nothing. Calls `on_accepted`, but
  // not `done`. Blocks until the loop's thread has the result. Returns nullopt if the loop has
  // stopped.
  std::optional<DryRun> Try(const Batch& batch);

  // Runs `fn` on the loop's thread between two transactions, and blocks until it returns. Changes
  // of unanswered batches may be missing in the store. Returns false if the loop has stopped.
  bool Call(const std::function<void(Reconciler&)>& fn);

  const StateLimits& limits() const { return options_.limits; }
  // Does not wait for a commit. After a batch is answered, the status includes the batch.
  LoopStatus status() const;
  // Returns the number of completed turns and starts another turn. If the number does not grow, the
  // loop hangs.
  uint64_t Turn();

 private:
  using Task = std::function<void()>;
  using Clock = std::chrono::steady_clock;

  struct Waiting {
    uint64_t sequence;
    Clock::time_point submitted;
    std::function<void(BatchResult)> done;
    BatchResult result;
  };
  // The effect of a batch on the store.
  struct BatchEffect {
    bool any = false;      // The batch contained a change that exceeds no limit.
    bool changed = false;  // At least one change had an effect.
    // Trigger time and IP family of each change that had an effect and has a trigger time.
    std::vector<std::pair<TriggerTimes::Time, Family>> triggered;
    ChangeCounts seen, net;
    KindCounts removed = {};
  };
  struct Held {
    HeldSnapshot snapshot;
    size_t listed;  // Store::snapshot_size() when the loss was computed.
    std::function<void()> on_ended;
  };

  // Thread and turns.
  void Post(Task task);
  void Run();
  bool TakeWork();
  void Act();
  void Clean(Clock::time_point now);
  void SyncOnce();
  void RemoveOnce();
  void RepairOnce();
  void AuditOnce();
  void EndTurn();
  bool Holding() const { return received_ == Received::kPreviousRules; }

  // Batches.
  void Accept(Batch batch, Clock::time_point submitted);
  BatchEffect ApplyChanges(const Batch& batch);
  // Returns true if the batch ends a snapshot whose removals are held.
  bool FollowMark(Batch& batch, BatchEffect& effect);
  void EndSnapshot(BatchEffect& effect);
  std::string LossToHold() const;
  bool InSnapshot() const { return reconciler_.store().in_snapshot() && !held_; }
  void Answer(const SyncResult& result, Clock::time_point started);
  void Answer(Waiting waiting);
  void AnswerAll(const absl::Status& error);  // With kFailed.
  uint64_t FirstUnprogrammed() const;

  // Observers and status.
  void Notify(RepairResult result);
  Phase CurrentPhase(const Schedule::Work& work) const;
  void PublishTurn(bool answered);
  void Publish(SyncResult& result, Clock::time_point started);

  Reconciler& reconciler_;
  LoopOptions options_;

  // Only the loop's thread uses the following members.
  Arrivals arrivals_;
  std::deque<Waiting> waiting_;
  uint64_t sequence_ = 0;
  TriggerTimes triggers_{std::chrono::system_clock::now()};
  StageTimes stages_;
  Schedule schedule_{options_.schedule, Clock::now()};
  Received received_ = Received::kNothing;
  Received programmed_ = Received::kNothing;  // See Situation::programmed.
  // True if the stored objects match the session's objects. While a snapshot is open, true if they
  // will match when the snapshot ends. Set when the session begins a snapshot, or if its state
  // token matches. Cleared when another client modifies objects.
  bool session_is_synced_ = false;
  std::optional<Held> held_;  // The open snapshot whose removals are held.
  // True if the changes that are not in the kernel come from a snapshot, or if no Service is in the
  // kernel.
  bool split_allowed_ = true;
  // The reported change that the next repair reverts, and the process that made the change.
  std::string damage_, damaged_by_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Task> tasks_;
  std::vector<Arrival> arrived_;  // Arrivals that are not in `arrivals_` yet.
  bool stopping_ = false;
  bool stopped_ = true;
  LoopStatus status_;
  std::atomic<uint64_t> turns_ = 0;
  // Another thread waits for packets in the rules, because a wait usually takes 10 to 30 ms.
  std::future<void> packet_wait_;
  std::thread thread_;
};

}  // namespace svcmap::proxy
