// The one thread that changes anything. Batches of changes come in from any thread; what has come
// in while a commit was in flight is merged, the latest state of an object wins, and each batch is
// answered once what it said is in the kernel.
//
// A batch is committed whole, in one transaction, together with what it was merged with. Only
// inside a snapshot, and while nothing is programmed yet, a load is cut into transactions of about
// `max_elements` so that none holds the kernel for long; a Service is never cut.
//
// What others do to our tables is mended between two batches, in parts that are small where the
// damage allows; after each part that took long it rests as long, so that batches come through. In
// quiet times it goes through everything that is applied, slowly.
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
    kCommitted,  // In the kernel.
    kUnchanged,  // The kernel already was what the batch asks for.
    kPending,    // Taken; the rules of the former life serve on until the snapshot ends.
    kFailed,     // Taken, but the kernel refuses; we go on trying.
  };
  Outcome outcome = Outcome::kCommitted;
  uint64_t revision = 0;
  std::chrono::nanoseconds commit_duration{0};  // Of the last transaction it was part of.
  std::chrono::nanoseconds queue_duration{0};   // From Submit to that commit's start.
  std::vector<Finding> findings;
  absl::Status error;
  // Of what was held when the batch had been taken; absent unless whoever speaks knows all of that:
  // from the end of a snapshot, or an offer that was right, to a change from aside.
  std::optional<StateToken> token;
};

// A change that follows from what is held of its object when its turn comes. The object counts as
// named, also if nothing comes of it.
struct DeferredChange {
  struct Result {
    std::optional<Change> change;  // Nothing: refused, see `findings`.
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
  // Objects that were named but refused: a snapshot must not prune their last good state.
  std::vector<std::pair<Kind, std::string>> rejected;
  std::vector<DeferredChange> deferred;  // After `changes`.
  bool out_of_band = false;              // Not from whoever speaks (see StartSession).
  // When it came in, before anything was made of it; Stage::kConvert is not counted without.
  std::optional<std::chrono::steady_clock::time_point> received;
  // Called once, on the loop's thread, when the changes are in the store, before `done`: with what
  // the late ones found, and what is over a limit. Must not block.
  std::function<void(const std::vector<Finding>&)> on_accepted;
  std::function<void(BatchResult)> done;  // Called once, on the loop's thread; must not block.
};

// By what was changed; other kinds are rare.
struct ChangeCounts {
  uint64_t services = 0;
  uint64_t slices = 0;
};

struct LoopStatus {
  enum class State : uint8_t {
    kWaitingForState,  // Nobody has told us yet what to serve.
    kServing,
    kRetrying,  // The kernel does not take what we want.
  };
  State state = State::kWaitingForState;
  uint64_t revision = 0;
  size_t services = 0, slices = 0, nodes = 0, service_cidrs = 0;
  uint64_t object_bytes = 0;     // Size of all stored objects as they were sent.
  uint64_t object_elements = 0;  // Store::elements().
  size_t pending_services = 0;
  size_t service_ports = 0;
  SetCounts elements = {};
  uint64_t commits = 0, recreations = 0, failures = 0;
  uint64_t repairs = 0;  // Looks at the kernel that found something, which was mended.
  uint64_t repaired_elements = 0, repaired_chains = 0;
  uint64_t audits = 0;           // Walks through everything that have ended.
  size_t rejected_services = 0;  // That the kernel does not take.
  // We were told everything there is to serve, and it was in the kernel once.
  bool complete = false;
  // As `complete`, and told in this life: by a snapshot, or by a speaker whose offer was right.
  // What a former life left on disk does not count, nor single changes.
  bool confirmed = false;
  // Nobody is known to have changed our tables, or they have been looked at since.
  bool verified = false;
  std::optional<std::chrono::steady_clock::time_point> last_verified;  // When that held last.
  // When the oldest change came that is not in the kernel; absent when all are, and while tables of
  // a former life serve.
  std::optional<std::chrono::steady_clock::time_point> oldest_unsynced;
  std::chrono::system_clock::time_point last_sync;  // That did not fail; before it, the start.
  bool node_eligible = false;  // For load balancers (S-253); as the last Node said that was ours.
  std::chrono::nanoseconds last_commit_duration{0};
  size_t last_commit_elements = 0;
  std::chrono::system_clock::time_point last_commit_time;
  uint64_t elements_written = 0;  // Added and deleted, by commits and repairs.
  ProgrammingLatency programming_latency;
  StageTimes stages;             // Of all turns that have ended.
  std::string last_error;        // Empty when the last sync or look succeeded.
  ChangeCounts changes;          // That were told, also where they changed nothing.
  ChangeCounts pending_changes;  // Those of them that did and are not in the kernel.
  std::chrono::system_clock::time_point last_queued;  // When something was told last, or the start.
  NoLocalEndpoints no_local_endpoints;
};

// One look at the kernel that found something, or could not be taken.
struct Repaired {
  RepairResult result;
  std::string what;     // What was told last, "3 elements deleted from endpoints"; may be empty.
  std::string process;  // Who did it, as far as the kernel says.
};

struct LoopOptions {
  Cleaner* cleaner = nullptr;  // Is told what was programmed; outlives the loop.
  size_t max_elements = 10000;
  // Failed syncs in a row before the waiting batches are answered kFailed.
  int patience = 4;
  std::chrono::milliseconds first_retry{5};
  std::chrono::milliseconds last_retry{2000};
  // Called after each sync that did or tried something, on the loop's thread.
  std::function<void(const SyncResult&, const LoopStatus&)> on_sync;
  // The same for syncs that did not fail, once their batches are answered: for what may take time.
  // `done`: nothing is left to program.
  std::function<void(const SyncResult&, bool done)> on_answered;
  // The same for batches that changed objects, but nothing that has to be programmed.
  std::function<void()> on_stored;
  std::function<void(const Repaired&)> on_repair;  // As on_sync.
  TriggerTimes::Observer on_programmed;
  // What changed about healthCheckNodePorts, after each sync that did not fail while there are any.
  std::function<void(HealthCheckChanges)> on_health_checks;
  std::function<void(std::vector<IpAddress>)> on_health_check_addresses;  // Whenever they change.
  // In which all that is applied is compared with the kernel once; and the share of one CPU that
  // this may take.
  std::chrono::milliseconds audit_cycle{std::chrono::minutes(5)};
  double audit_share = 0.015;
  std::chrono::milliseconds first_audit{std::chrono::seconds(30)};  // After the start.
  // After which what the kernel refused is tried again.
  std::chrono::milliseconds retry_rejected{std::chrono::minutes(1)};
  StateLimits limits;
};

class Loop {
 public:
  Loop(Reconciler& reconciler, LoopOptions options);
  ~Loop();  // Stops.

  // `hold`: tables of a former life serve; nothing is written before a snapshot has ended.
  // `complete`: the store holds the whole state already.
  void Start(bool keep_previous_rules, bool complete = false);
  // Finishes the commit in flight and answers what waits with kFailed. The rules stay.
  void Stop();

  void Submit(Batch batch);
  void SetInterfaceAddresses(std::vector<IpAddress> addresses);
  // Somebody changed our tables.
  void Repair(nft::ForeignChange change);

  // Somebody new speaks, who knows what `offered` stands for: a snapshot that another left open is
  // abandoned, and `answer` gets what is held then, or nothing while the rules of a former life
  // serve; on the loop's thread, never if the loop stops first.
  void StartSession(std::optional<StateToken> offered,
                    std::function<void(std::optional<StateToken>)> answer);

  // What a batch without a mark would change, and what there would be to say of its changes;
  // nothing of it stays. `taken` is called, `done` is not. Waits; nothing once stopped.
  std::optional<DryRun> Try(const Batch& batch);

  // Runs `fn` on the loop's thread, between two transactions, and waits for it. False once stopped.
  bool Call(const std::function<void(Reconciler&)>& fn);

  const StateLimits& limits() const { return options_.limits; }
  // Never waits for a commit. After the Ack of a batch, the status contains the batch.
  LoopStatus status() const;
  // Grows as long as the loop turns; makes it turn once more.
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
  // What became of the changes of a batch.
  struct BatchEffect {
    bool any = false;      // What is over a limit counts as named, as everything that is refused.
    bool changed = false;  // Not all were held already.
    // Of those that changed something.
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
  uint64_t FirstUnprogrammed() const;
  void AnswerAll(BatchResult::Outcome outcome, const absl::Status& error);
  LoopStatus::State State() const;
  void PublishStatus(const SyncResult& result);

  Reconciler& reconciler_;
  LoopOptions options_;

  // Only on the loop's thread.
  std::deque<Waiting> waiting_;
  uint64_t sequence_ = 0;
  TriggerTimes triggers_{std::chrono::system_clock::now()};
  StageTimes stages_;
  bool keep_previous_rules_ = false;
  bool in_snapshot_ = false;
  bool session_is_synced_ = false;  // All that is held.
  bool has_state_ = false;          // A snapshot has ended, or changes came outside of one.
  bool confirmed_ = false;          // All there is, in this life (LoopStatus::confirmed).
  bool split_allowed_ = true;
  bool has_health_checks_ = false;  // Now or before.
  Backoff backoff_{options_.first_retry, options_.last_retry};
  Clock::time_point retry_at_;
  Backoff repair_backoff_{options_.first_retry, options_.last_retry};
  Clock::time_point repair_at_;
  Clock::time_point audit_at_;
  Clock::time_point retry_rejected_at_;
  std::string damage_, damaged_by_;  // What the next repair is for.

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
