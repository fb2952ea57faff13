#include "proxy/reconcile/loop.h"

#include <time.h>

#include <algorithm>
#include <limits>
#include <system_error>
#include <vector>

namespace svcmap::proxy {

namespace {

using SystemClock = std::chrono::system_clock;

// Maximum number of transactions in one turn that delete leftovers.
constexpr int kRemovalsPerTurn = 7;

// User and kernel CPU time of this thread. Does not include waiting.
std::chrono::nanoseconds CpuTimeOfThread() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

SnapshotLoss LossBetween(const Store::Amounts& before, const Store::Amounts& after) {
  const auto part = [](size_t had, size_t has) {
    return SnapshotLoss::Part{.lost = had - std::min(had, has), .before = had};
  };
  SnapshotLoss loss;
  for (size_t kind = 0; kind < before.objects.size(); ++kind) {
    loss.kinds[kind] = part(before.objects[kind], after.objects[kind]);
  }
  loss.with_endpoints = part(before.with_endpoints, after.with_endpoints);
  return loss;
}

}  // namespace

Loop::Loop(Reconciler& reconciler, LoopOptions options)
    : reconciler_(reconciler), options_(std::move(options)) {}

Loop::~Loop() { Stop(); }

void Loop::Start(Received received) {
  received_ = received;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = false;
    status_.phase = CurrentPhase(reconciler_.WorkLeft());
    status_.revision = reconciler_.revision();
    status_.last_sync = status_.last_queued = SystemClock::now();
  }
  thread_ = std::thread([this] { Run(); });
}

void Loop::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  packet_wait_ = {};  // Blocks until the wait in progress has ended.
}

void Loop::Post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void Loop::Submit(Batch batch) {
  const auto now = Clock::now();
  std::unique_lock lock(mutex_);
  if (stopped_ || stopping_) {
    lock.unlock();
    if (!batch.done) return;
    batch.done({.outcome = BatchResult::Outcome::kFailed,
                .error = absl::UnavailableError("the agent is stopping")});
    return;
  }
  if (!status_.oldest_unsynced) status_.oldest_unsynced = now;
  status_.last_queued = SystemClock::now();
  arrived_.push_back({.submitted = now, .batch = std::move(batch)});
  lock.unlock();
  wake_.notify_one();
}

void Loop::SetInterfaceAddresses(NodeAddresses addresses) {
  Post([this, addresses = std::move(addresses)]() mutable {
    reconciler_.node().SetInterfaceAddresses(std::move(addresses));
  });
}

void Loop::Repair(nft::ForeignChange change) {
  Post([this, change = std::move(change)] {
    damage_ = change.text;
    damaged_by_ = change.process;
    if (!Holding()) {
      reconciler_.MarkSuspect(change);
      return;
    }
    Notify({.outcome = RepairResult::Outcome::kFailed,
            .error = absl::FailedPreconditionError(
                "the desired state is unknown until a complete state is received")});
  });
}

bool Loop::Call(const std::function<void(Reconciler&)>& fn) {
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> finished = done->get_future();
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || stopping_) return false;
    tasks_.push_back([this, &fn, done] {
      fn(reconciler_);
      done->set_value();
    });
  }
  done.reset();
  wake_.notify_one();
  try {
    finished.get();
    return true;
  } catch (const std::future_error&) {
    return false;  // The loop stopped first and dropped the task.
  }
}

std::optional<DryRun> Loop::Try(const Batch& batch) {
  std::optional<DryRun> result;
  Call([&](Reconciler& reconciler) {
    SnapshotLoss loss;
    result = reconciler.Try([&] {
      const Store::Amounts before = reconciler.store().CountObjects();
      ApplyChanges(batch);
      loss = LossBetween(before, reconciler.store().CountObjects());
    });
    result->held = LossBeyond(loss, options_.hold_removals);
  });
  return result;
}

LoopStatus Loop::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

uint64_t Loop::Turn() {
  Post([] {});
  return turns_;
}

void Loop::StartSession(std::optional<StateToken> offered,
                        std::function<void(std::optional<StateToken>)> answer) {
  Task start = [this, offered, answer = std::move(answer)] {
    reconciler_.store().AbandonSnapshot();
    held_.reset();
    std::optional<StateToken> held;
    if (!Holding()) held = reconciler_.store().token();
    session_is_synced_ = offered && held == offered;
    if (session_is_synced_) {
      reconciler_.store().ForgetSnapshots();
      received_ = Received::kComplete;
    }
    answer(held);
  };
  {
    const std::lock_guard lock(mutex_);
    arrived_.push_back({.submitted = Clock::now(), .start_session = std::move(start)});
  }
  wake_.notify_one();
}

void Loop::Run() {
  while (TakeWork()) {
    if (!Holding()) Act();
    EndTurn();
  }
  while (!reconciler_.leftovers().empty()) RemoveOnce();
  EndTurn();
  AnswerAll(absl::UnavailableError("the agent is stopping"));
  std::vector<Task> dropped;
  std::vector<Arrival> sessions;  // Batches are refused since the loop stops.
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(tasks_);
    sessions.swap(arrived_);
  }
}

// Waits until there is something to do, accepts batches and runs the queued tasks. When stopping,
// all batches are accepted, so that each one is answered. Returns false if the loop must stop.
bool Loop::TakeWork() {
  std::optional<Schedule::Time> next;
  if (!arrivals_.empty()) {
    next = Clock::now();
  } else if (!Holding()) {
    next = schedule_.Next(reconciler_.WorkLeft(), Clock::now());
  }
  std::vector<Task> tasks;
  std::vector<Arrival> arrived;
  bool stopping = false;
  {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return stopping_ || !tasks_.empty() || !arrived_.empty(); };
    if (!next) {
      wake_.wait(lock, ready);
    } else if (*next > Clock::now()) {
      wake_.wait_until(lock, *next, ready);
    }
    tasks.swap(tasks_);
    arrived.swap(arrived_);
    stopping = stopping_;
  }
  for (Arrival& arrival : arrived) arrivals_.Add(std::move(arrival));
  // Each batch is answered, even if nothing is planned or commits fail.
  size_t limit = std::numeric_limits<size_t>::max();
  if (!stopping && !Holding() && schedule_.failed_commits() == 0) {
    // Several plans may be needed for the accepted changes. Further changes wait meanwhile, so that
    // these plans do not grow.
    limit = reconciler_.store().dirty().size() == 0 ? options_.max_elements : 0;
  }
  arrivals_.Take(limit, [this](Arrival arrival) {
    if (arrival.batch) {
      Accept(std::move(*arrival.batch), arrival.submitted);
    } else {
      arrival.start_session();
    }
  });
  // Tasks run afterwards, so they see only accepted batches.
  for (Task& task : tasks) task();
  return !stopping;
}

// Commits changes first, so that continuous repairs do not delay them.
void Loop::Act() {
  const auto now = Clock::now();
  if (schedule_.CommitDue(now)) SyncOnce();
  Clean(now);
  if (reconciler_.WorkLeft().rejected && schedule_.RejectedDue(now)) {
    reconciler_.RetryRejected();
    schedule_.RejectedRetried(now);
  }
}

// Leftovers that are due are deleted before a repair, in bounded portions. Both may happen in one
// turn, so that continuous changes do not delay repairs.
void Loop::Clean(Clock::time_point now) {
  for (int i = 0; i < kRemovalsPerTurn && reconciler_.leftovers().due(); ++i) RemoveOnce();
  if (reconciler_.leftovers().due()) return;
  if (reconciler_.leftovers().NeedWait()) {
    const auto await = [this, wait = reconciler_.leftovers().BeginWait()] {
      reconciler_.AwaitPackets();
      Post([this, wait] { reconciler_.leftovers().EndWait(wait); });
    };
    try {
      packet_wait_ = std::async(std::launch::async, await);
    } catch (const std::system_error&) {  // The node or the cgroup has no thread left.
      await();
    }
  }
  const Schedule::Work work = reconciler_.WorkLeft();
  if (work.suspects) {
    if (schedule_.RepairDue(now)) RepairOnce();
  } else if (!work.changes && schedule_.AuditDue(now)) {
    AuditOnce();
  }
}

void Loop::EndTurn() {
  ++turns_;
  PublishTurn(/*answered=*/waiting_.empty());
}

void Loop::RemoveOnce() {
  const auto start = Clock::now();
  const absl::Status removed = reconciler_.RemoveLeftovers().error;
  stages_.Add(Stage::kRemove, Clock::now() - start);
  if (removed.ok()) return;
  const std::lock_guard lock(mutex_);
  status_.last_error = std::string(removed.message());
}

void Loop::RepairOnce() {
  const auto start = Clock::now();
  const RepairResult result = reconciler_.Repair();
  const auto now = Clock::now();
  if (result.outcome == RepairResult::Outcome::kFailed) {
    schedule_.RepairFailed(now, /*disturbed=*/absl::IsUnavailable(result.error));
  } else {
    schedule_.RepairDone(start, now);
  }
  Notify(result);
}

void Loop::AuditOnce() {
  const std::chrono::nanoseconds start = CpuTimeOfThread();
  const RepairResult result = reconciler_.Repair();
  schedule_.Audited(Clock::now(), reconciler_.applied().RowCount(), CpuTimeOfThread() - start);
  Notify(result);
}

void Loop::SyncOnce() {
  const Schedule::Work work = reconciler_.WorkLeft();
  if (!work.changes && !work.unsaved && waiting_.empty()) return;
  const auto started = Clock::now();
  size_t limit = std::numeric_limits<size_t>::max();
  if (split_allowed_) {
    limit = programmed_ < Received::kStored ? options_.first_load_elements : options_.max_elements;
  }
  SyncResult result = reconciler_.Sync(limit, received_ <= Received::kPartial);
  if (work.changes) result.whole = Clock::now() - started;
  for (const RepairResult& repair : result.repairs) Notify(repair);
  if (result.outcome == SyncResult::Outcome::kFailed) {
    schedule_.CommitFailed(Clock::now());
    Publish(result, started);
    if (schedule_.failed_commits() >= options_.patience) AnswerAll(result.error);
    return;
  }
  for (PlanFinding& found : result.findings) {
    // The batch was answered before its changes were programmed.
    if (waiting_.empty() || waiting_.back().sequence < found.sequence) found.sequence = 0;
  }
  schedule_.CommitSucceeded();
  if (result.recreated) schedule_.Rewritten(Clock::now(), Clock::now() - started);
  Store& store = reconciler_.store();
  if (store.dirty().size() == 0) split_allowed_ = true;
  result.complete = received_ >= Received::kStored && !InSnapshot() && store.dirty().size() == 0;
  if (result.complete) store.KeepMoves();
  Publish(result, started);
  if (!result.may_answer) {
    schedule_.CommitFailed(Clock::now());  // The marker is committed again after a delay.
    return;
  }
  Answer(result, started);
}

Phase Loop::CurrentPhase(const Schedule::Work& work) const {
  return PhaseOf({.received = received_,
                  .programmed = programmed_,
                  .tables = work.tables,
                  .plan_failed = schedule_.failed_commits() > 0,
                  .suspects = work.suspects});
}

// Called at the end of a turn, and before Acks are sent: a client that has received an Ack finds
// its batch in the status. `answered`: every accepted batch that needs no further commit has its
// Ack, or gets it next.
void Loop::PublishTurn(bool answered) {
  const Schedule::Work work = reconciler_.WorkLeft();
  const bool idle = !work.changes && answered;
  const bool verified = !Holding() && work.tables == TableState::kCurrent && !work.suspects;
  if (idle && !Holding() && !InSnapshot() && schedule_.failed_commits() == 0) {
    programmed_ = received_;
  }
  const std::lock_guard lock(mutex_);
  status_.phase = CurrentPhase(work);
  status_.complete = programmed_ >= Received::kStored;
  status_.confirmed = programmed_ == Received::kComplete;
  // An idle loop makes no turns. The tables were verified until this turn.
  if (verified || status_.verified) status_.last_verified = Clock::now();
  status_.verified = verified;
  status_.held_snapshot.reset();
  if (held_) status_.held_snapshot = held_->snapshot;
  status_.stages = stages_;
  if (!Holding()) reconciler_.FillStatus(status_);
  if (idle || Holding()) {
    status_.oldest_unsynced = arrivals_.oldest();
    // Batches that have arrived during this turn are only in `arrived_`.
    const auto batch =
        std::ranges::find_if(arrived_, [](const Arrival& a) { return a.batch.has_value(); });
    if (!status_.oldest_unsynced && batch != arrived_.end()) {
      status_.oldest_unsynced = batch->submitted;
    }
  }
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

void Loop::Publish(SyncResult& result, Clock::time_point started) {
  const auto now = SystemClock::now();
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
  if (result.outcome == SyncResult::Outcome::kNothing) return;
  const auto follow =
      Clock::now() - started - result.plan_duration - result.save_duration - result.duration;
  stages_.Add(Stage::kPlan, result.plan_duration);
  stages_.Add(Stage::kSave, result.save_duration);
  stages_.Add(Stage::kKernel, result.duration);
  stages_.Add(Stage::kFollow, follow);
}

}  // namespace svcmap::proxy
