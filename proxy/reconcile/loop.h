// The reconcile loop: the only thread that changes the store and the kernel. Any thread may submit
// batches of changes. Batches that arrive during a commit are merged, and the latest version of
// each object takes effect. A batch is answered when all its changes are in the kernel.
//
// Merged batches are committed in one transaction. Only during a snapshot, and while no Service is
// programmed, the load is split into transactions of about `max_elements` elements, so that no
// transaction blocks the kernel for long. A Service is never split.
//
// Changes of svcmap's tables by other processes are repaired between two commits, in small parts if
// possible. After each part, repairs pause for as long as the part took, so that batches are not
// delayed. While there is nothing else to do, the loop slowly compares all applied rows with the
// kernel (audit).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nft/base/backoff.h"
#include "proxy/conntrack/cleaner.h"
#include "proxy/health/sync_clock.h"
#include "proxy/reconcile/reconciler.h"
#include "proxy/reconcile/stages.h"
#include "proxy/reconcile/trigger_times.h"
#include "proxy/state/limits.h"

namespace svcmap::proxy {

struct BatchResult {
  enum class Outcome : uint8_t {
    kCommitted,  // The changes are in the kernel.
    kUnchanged,  // The kernel already had the desired state.
    kPending,    // Accepted. The previous run's rules stay in effect until a snapshot ends.
    kFailed,     // Accepted, but the commit failed and is retried, or the loop has stopped.
  };
  Outcome outcome = Outcome::kCommitted;
  uint64_t revision = 0;
  std::chrono::nanoseconds commit_duration{0};  // Duration of the last commit before the answer.
  std::chrono::nanoseconds queue_duration{0};   // From Submit to the start of that commit.
  std::vector<Finding> findings;
  absl::Status error;
  // State token of the store after the batch. Absent unless the session has the complete state: it
  // has sent a snapshot or offered the matching token, and no out-of-band batch has changed the
  // store since.
  std::optional<StateToken> token;
};

// A change that is computed on the loop's thread from the stored version of its object. A snapshot
// does not prune the object, even if the result contains no change.
struct DeferredChange {
  struct Result {
    std::optional<Change> change;  // Absent: rejected, see `findings`.
    std::vector<Finding> findings;
  };
  Kind kind = Kind::kService;
  std::string key;
  std::function<Result(const Store&)> make;  // Called once, on the loop's thread; must not block.
};

struct Batch {
  enum class Mark : uint8_t { kNone, kSnapshotBegin, kSnapshotEnd };
  Mark mark = Mark::kNone;
  std::vector<Change> changes;
  // Rejected objects. A snapshot does not prune their last accepted version.
  std::vector<std::pair<Kind, std::string>> rejected;
  std::vector<DeferredChange> deferred;  // Applied after `changes`.
  bool out_of_band = false;              // Not from the session's controller (see StartSession).
  // When the message was received, before its conversion. If absent, Stage::kConvert is not
  // counted.
  std::optional<std::chrono::steady_clock::time_point> received;
  // Called once, on the loop's thread, after the changes are in the store and before `done`. The
  // findings are those of deferred changes and of changes that exceed a limit. Must not block.
  std::function<void(const std::vector<Finding>&)> on_accepted;
  // Called once, on the loop's thread, or on the caller's thread if the loop has stopped. Must not
  // block.
  std::function<void(BatchResult)> done;
};

// Number of changes by kind. Other kinds are rare and not counted.
struct ChangeCounts {
  uint64_t services = 0;
  uint64_t slices = 0;
};

struct LoopStatus {
  enum class State : uint8_t {
    kWaitingForState,  // No state has been received or restored yet.
    kServing,
    kRetrying,  // The last commit failed.
  };
  State state = State::kWaitingForState;
  uint64_t revision = 0;
  size_t services = 0, slices = 0, nodes = 0, service_cidrs = 0;
  uint64_t object_bytes = 0;     // Size of all stored objects as received.
  uint64_t object_elements = 0;  // Store::elements().
  size_t pending_services = 0;
  size_t service_ports = 0;
  SetCounts elements = {};
  uint64_t commits = 0, recreations = 0, failures = 0;
  uint64_t repairs = 0;  // Checks that found differences, which were repaired.
  uint64_t repaired_elements = 0, repaired_chains = 0;
  uint64_t audits = 0;           // Completed audits of all applied rows.
  size_t rejected_services = 0;  // Services that the kernel has rejected.
  // The complete state was received or restored, and it was in the kernel at least once.
  bool complete = false;
  // As `complete`, but received in this run: a controller has sent a snapshot or offered the
  // matching state token. Saved state of the previous run and single changes do not count.
  bool confirmed = false;
  // All reported changes of svcmap's tables by other processes were checked and repaired.
  bool verified = false;
  // When `verified` was last true.
  std::optional<std::chrono::steady_clock::time_point> last_verified;
  // When the oldest change was received that is not in the kernel. Absent if all changes are in the
  // kernel, or while rules of the previous run are in effect.
  std::optional<std::chrono::steady_clock::time_point> oldest_unsynced;
  // Last successful sync. Initially the start of the loop.
  std::chrono::system_clock::time_point last_sync;
  // Whether load balancers may send traffic to this node (S-253), from its last known Node object.
  bool node_eligible = false;
  std::chrono::nanoseconds last_commit_duration{0};
  size_t last_commit_elements = 0;
  std::chrono::system_clock::time_point last_commit_time;
  uint64_t elements_written = 0;  // Added and deleted elements, by commits and repairs.
  ProgrammingLatency programming_latency;
  StageTimes stages;             // Of all completed turns.
  std::string last_error;        // Empty if the last sync or repair succeeded.
  ChangeCounts changes;          // All received changes, including changes without an effect.
  ChangeCounts pending_changes;  // Changes with an effect that are not in the kernel yet.
  // When the last batch was submitted. Initially the start of the loop.
  std::chrono::system_clock::time_point last_queued;
  NoLocalEndpoints no_local_endpoints;
};

// A repair that found differences or failed.
struct Repaired {
  RepairResult result;
  // The last reported change by another process, such as "3 elements deleted from endpoints". May
  // be empty.
  std::string what;
  std::string process;  // The process that made the change, if known.
};

struct LoopOptions {
  Cleaner* cleaner = nullptr;  // Receives the programmed UDP ports. Must outlive the loop.
  // Approximate number of elements in a transaction if the load is split.
  size_t max_elements = 10000;
  // Consecutive failed syncs before the waiting batches are answered with kFailed.
  int patience = 4;
  std::chrono::milliseconds first_retry{5};
  std::chrono::milliseconds last_retry{2000};
  // Called on the loop's thread after each sync, including failed syncs and syncs without an
  // effect.
  std::function<void(const SyncResult&, const LoopStatus&)> on_sync;
  // Called on the loop's thread after a sync that did not fail, when its batches have been
  // answered. The call may take time. `done`: no Service is left to program.
  std::function<void(const SyncResult&, bool done)> on_answered;
  // Called on the loop's thread after batches were answered that required no sync. The call may
  // take time.
  std::function<void()> on_stored;
  // Called on the loop's thread after each repair that found differences or failed.
  std::function<void(const Repaired&)> on_repair;
  TriggerTimes::Observer on_programmed;
  // Called with changes of healthCheckNodePorts, after each successful sync once a Service has had
  // one.
  std::function<void(HealthCheckChanges)> on_health_checks;
  // Called when the addresses for healthCheckNodePorts change.
  std::function<void(std::vector<IpAddress>)> on_health_check_addresses;
  // Called with changes of nodePorts on loopback addresses.
  std::function<void(LocalhostNodePortChanges)> on_localhost_node_ports;
  // Duration of one audit of all applied rows, and the maximum share of one CPU for it. If both
  // conflict, the share takes precedence.
  std::chrono::milliseconds audit_cycle{std::chrono::minutes(5)};
  double audit_share = 0.015;
  std::chrono::milliseconds first_audit{std::chrono::seconds(30)};  // Delay after the start.
  // Interval for retrying Services that the kernel has rejected.
  std::chrono::milliseconds retry_rejected{std::chrono::minutes(1)};
  StateLimits limits;
};

class Loop {
 public:
  Loop(Reconciler& reconciler, LoopOptions options);
  ~Loop();  // Calls Stop().

  // `keep_previous_rules`: rules of a previous run are in effect, and nothing is written before a
  // snapshot has ended. `complete`: the store already contains the complete state.
  void Start(bool keep_previous_rules, bool complete = false);
  // Waits for the commit in flight, answers waiting batches with kFailed and stops the thread. The
  // rules stay in effect.
  void Stop();

  void Submit(Batch batch);
  void SetInterfaceAddresses(std::vector<IpAddress> addresses);
  // Another process has changed svcmap's tables.
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

  // Runs `fn` on the loop's thread between two transactions, and blocks until it returns. Returns
  // false if the loop has stopped.
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
    std::chrono::steady_clock::time_point submitted;
    std::function<void(BatchResult)> done;
    BatchResult result;
  };
  void Post(Task task);
  void Run();
  std::optional<StateToken> Token() const;
  void Accept(Batch batch, std::chrono::steady_clock::time_point submitted);
  // The effect of a batch on the store.
  struct BatchEffect {
    bool any = false;      // The batch contained a change that exceeds no limit.
    bool changed = false;  // At least one change had an effect.
    // For each change with an effect and a trigger time.
    std::vector<std::pair<TriggerTimes::Time, Family>> triggered;
    ChangeCounts seen, net;
  };
  BatchEffect ApplyChanges(const Batch& batch);
  void SyncOnce();
  std::optional<Clock::time_point> NextWork() const;
  void RemoveOnce();
  void RepairOnce();
  void AuditOnce();
  void Notify(const RepairResult& result);
  void EndTurn();
  void PublishTurn(bool answered);
  void CountStages(const SyncResult& result, Clock::time_point started);
  void Answer(const SyncResult& result, std::chrono::steady_clock::time_point started);
  void Answer(Waiting waiting);
  void NotifyCleaner(SyncResult& result);
  void NotifyHealthChecks(SyncResult& result);
  void NotifyForwarder(SyncResult& result);
  uint64_t FirstUnprogrammed() const;
  void AnswerAll(BatchResult::Outcome outcome, const absl::Status& error);
  LoopStatus::State State() const;
  void PublishStatus(const SyncResult& result);

  Reconciler& reconciler_;
  LoopOptions options_;

  // Only used on the loop's thread.
  std::deque<Waiting> waiting_;
  uint64_t sequence_ = 0;
  TriggerTimes triggers_{std::chrono::system_clock::now()};
  StageTimes stages_;
  bool keep_previous_rules_ = false;
  bool session_is_synced_ = false;  // The session has the complete state.
  bool has_state_ = false;          // A snapshot has ended, or changes came outside of a snapshot.
  bool confirmed_ = false;  // The complete state was received in this run (LoopStatus::confirmed).
  bool split_allowed_ = true;
  bool has_health_checks_ = false;  // A Service has, or has had, a healthCheckNodePort.
  Backoff backoff_{options_.first_retry, options_.last_retry};
  Clock::time_point retry_at_;
  Backoff repair_backoff_{options_.first_retry, options_.last_retry};
  Clock::time_point repair_at_;
  Clock::time_point audit_at_;
  Clock::time_point retry_rejected_at_;
  std::string damage_, damaged_by_;  // Reported change that the next repair is for.

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  bool stopped_ = true;
  LoopStatus status_;
  SyncClock clock_;
  std::atomic<uint64_t> turns_ = 0;
  std::thread thread_;
};

}  // namespace svcmap::proxy
