#include "proxy/reconcile/loop.h"

#include <time.h>

#include <algorithm>
#include <future>
#include <iterator>
#include <limits>

namespace svcmap::proxy {

namespace {

using SystemClock = std::chrono::system_clock;

// Maximum number of repairs before a failed sync is retried, if other processes may have caused the
// failure.
constexpr int kLooksBeforeRetry = 8;
// Interval for calling RetrySaving while saving fails. The state log decides whether a retry is
// due.
constexpr std::chrono::seconds kRetrySaving{1};
// Maximum delay of the next repair after commits of other processes interrupted a repair.
constexpr std::chrono::milliseconds kLongestDisturbance{50};

// User and kernel CPU time of this thread. Does not include waiting.
std::chrono::nanoseconds CpuTimeOfThread() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

ChangeCounts& operator+=(ChangeCounts& to, const ChangeCounts& more) {
  to.services += more.services;
  to.slices += more.slices;
  return to;
}

void Count(const Change& change, ChangeCounts& counts) {
  if (change.kind == Kind::kService) ++counts.services;
  if (change.kind == Kind::kEndpointSlice) ++counts.slices;
}

// Returns IPv4 if the object has no family.
Family FamilyOf(const Store& store, const Change& change) {
  const auto slice = change.slice ? change.slice : store.Stored(change.kind, change.key).slice;
  return slice ? slice->family : Family::kIpv4;
}

}  // namespace

Loop::Loop(Reconciler& reconciler, LoopOptions options)
    : reconciler_(reconciler), options_(std::move(options)) {}

Loop::~Loop() { Stop(); }

void Loop::Start(bool keep_previous_rules, bool complete) {
  keep_previous_rules_ = keep_previous_rules;
  has_state_ = complete;
  audit_at_ = Clock::now() + options_.first_audit;
  split_allowed_ = !keep_previous_rules;  // A replacement of rules is not split.
  {
    const std::lock_guard lock(mutex_);
    stopped_ = false;
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
}

void Loop::Post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void Loop::Submit(Batch batch) {
  // std::function copies its target, so the batch is shared instead of copied.
  auto shared = std::make_shared<Batch>(std::move(batch));
  const auto now = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_ && !stopping_) {
      clock_.Received(now);
      status_.last_queued = SystemClock::now();
      tasks_.push_back([this, shared, now] { Accept(std::move(*shared), now); });
      shared = nullptr;
    }
  }
  if (!shared) {
    wake_.notify_one();
  } else if (shared->done) {
    shared->done({.outcome = BatchResult::Outcome::kFailed,
                  .error = absl::UnavailableError("the agent is stopping")});
  }
}

void Loop::SetInterfaceAddresses(std::vector<IpAddress> addresses) {
  Post([this, addresses = std::move(addresses)]() mutable {
    reconciler_.SetInterfaceAddresses(std::move(addresses));
  });
}

void Loop::Repair(nft::ForeignChange change) {
  Post([this, change = std::move(change)] {
    damage_ = change.text;
    damaged_by_ = change.process;
    if (!keep_previous_rules_) {
      reconciler_.MarkSuspect(change);
      return;
    }
    RepairResult nothing;
    nothing.outcome = RepairResult::Outcome::kFailed;
    nothing.error = absl::FailedPreconditionError(
        "the desired state is unknown until a complete state is received");
    Notify(nothing);
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
  Call([&](Reconciler& reconciler) { result = reconciler.Try([&] { ApplyChanges(batch); }); });
  return result;
}

LoopStatus Loop::status() const {
  const std::lock_guard lock(mutex_);
  LoopStatus status = status_;
  status.oldest_unsynced = clock_.oldest_unsynced();
  return status;
}

uint64_t Loop::Turn() {
  Post([] {});
  return turns_;
}

void Loop::StartSession(std::optional<StateToken> offered,
                        std::function<void(std::optional<StateToken>)> answer) {
  Post([this, offered, answer = std::move(answer)] {
    reconciler_.store().AbandonSnapshot();
    std::optional<StateToken> held;
    if (!keep_previous_rules_) held = reconciler_.store().token();
    session_is_synced_ = offered && held == offered;
    confirmed_ = confirmed_ || session_is_synced_;
    answer(held);
  });
}

// Returns when the loop must act without a new task. A time in the past means immediately, nullopt
// means never.
std::optional<Loop::Clock::time_point> Loop::NextWork() const {
  if (keep_previous_rules_) return std::nullopt;
  if (reconciler_.Pending()) {
    return backoff_.failures() == 0 ? Clock::time_point() : retry_at_;
  }
  if (reconciler_.HasLeftovers()) return Clock::time_point();
  if (reconciler_.HasSuspects()) return repair_at_;
  Clock::time_point next = audit_at_;
  if (reconciler_.rejected_services() > 0) next = std::min(next, retry_rejected_at_);
  if (reconciler_.SavingFails()) next = std::min(next, Clock::now() + kRetrySaving);
  return next;
}

void Loop::Run() {
  for (bool stopping = false; !stopping;) {
    const std::optional<Clock::time_point> next = NextWork();
    std::deque<Task> tasks;
    {
      std::unique_lock lock(mutex_);
      const auto ready = [this] { return stopping_ || !tasks_.empty(); };
      if (!next) {
        wake_.wait(lock, ready);
      } else if (*next > Clock::now()) {
        wake_.wait_until(lock, *next, ready);
      }
      tasks.swap(tasks_);
      clock_.Started();
      stopping = stopping_;
    }
    // When stopping, queued tasks still run, so that each batch is answered.
    for (Task& task : tasks) task();
    tasks.clear();
    if (stopping || keep_previous_rules_) {
      EndTurn();
      continue;
    }
    const auto now = Clock::now();
    if (backoff_.failures() == 0 || now >= retry_at_) {
      while (backoff_.failures() > 0 && reconciler_.HasLeftovers()) RemoveOnce();
      for (int i = 0; backoff_.failures() > 0 && i < kLooksBeforeRetry && reconciler_.HasSuspects();
           ++i) {
        RepairOnce();
      }
      SyncOnce();
    }
    // Leftovers are deleted before a repair, because a repair would find unknown elements. Both may
    // happen in one turn, so that continuous changes do not delay repairs.
    if (reconciler_.HasLeftovers()) RemoveOnce();
    const bool clean = !reconciler_.HasLeftovers();
    if (clean && reconciler_.HasSuspects()) {
      if (now >= repair_at_) RepairOnce();
    } else if (clean && !reconciler_.Pending() && now >= audit_at_) {
      AuditOnce();
    }
    if (reconciler_.rejected_services() > 0 && now >= retry_rejected_at_) {
      reconciler_.RetryRejected();
      retry_rejected_at_ = now + options_.retry_rejected;
    }
    reconciler_.RetrySaving();
    EndTurn();
  }
  while (reconciler_.HasLeftovers()) RemoveOnce();
  EndTurn();
  AnswerAll(BatchResult::Outcome::kFailed, absl::UnavailableError("the agent is stopping"));
  std::deque<Task> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(tasks_);
  }
}

void Loop::EndTurn() {
  // The reported generation includes commits of other processes that did not change svcmap's
  // tables. All reports up to this generation are already in the queue, so they are processed if no
  // task is left.
  const std::optional<uint32_t> generation = reconciler_.ReportedGeneration();
  ++turns_;
  PublishTurn(/*answered=*/waiting_.empty());
  {
    const std::lock_guard lock(mutex_);
    if (!tasks_.empty() || !status_.verified) return;
  }
  if (generation) reconciler_.NoteGeneration(*generation);
}

// Called at the end of a turn, and before Acks are sent: a client that has received an Ack finds
// its batch in the status. `answered`: every batch that needs no further commit has its Ack, or
// gets it next.
void Loop::PublishTurn(bool answered) {
  const bool idle = keep_previous_rules_ || (!reconciler_.Pending() && answered);
  const bool verified = !keep_previous_rules_ && reconciler_.Verified();
  const std::lock_guard lock(mutex_);
  status_.verified = verified;
  status_.stages = stages_;
  if (verified) status_.last_verified = Clock::now();
  status_.complete |= idle && !keep_previous_rules_ && has_state_ &&
                      !reconciler_.store().in_snapshot() && backoff_.failures() == 0;
  status_.confirmed |= status_.complete && idle && confirmed_ && backoff_.failures() == 0;
  status_.audits = reconciler_.audits();
  status_.rejected_services = reconciler_.rejected_services();
  if (idle) clock_.Synced();
  if (idle && !keep_previous_rules_) status_.pending_changes = {};
}

void Loop::RemoveOnce() {
  const RemovalResult result = reconciler_.RemoveLeftovers();
  stages_.Add(Stage::kRemove, result.duration);
  if (reconciler_.store().dirty_count() == 0) reconciler_.ForgetPreviousRun();
  if (result.error.ok()) return;
  const std::lock_guard lock(mutex_);
  status_.last_error = std::string(result.error.message());
}

void Loop::RepairOnce() {
  const auto start = Clock::now();
  const RepairResult result = reconciler_.Repair();
  const auto now = Clock::now();
  if (result.outcome == RepairResult::Outcome::kFailed) {
    Clock::duration wait = repair_backoff_.Failure();
    if (absl::IsUnavailable(result.error))
      wait = std::min<Clock::duration>(wait, kLongestDisturbance);
    repair_at_ = now + wait;
  } else {
    repair_backoff_.Success();
    repair_at_ = now + (now - start);
  }
  Notify(result);
}

void Loop::AuditOnce() {
  const std::chrono::nanoseconds start = CpuTimeOfThread();
  const RepairResult result = reconciler_.Audit();
  const std::chrono::nanoseconds spent = CpuTimeOfThread() - start;
  const auto now = Clock::now();
  // Makes one audit last for one cycle, or longer if the machine is so slow that the CPU share
  // would be exceeded.
  const auto rows = std::max<size_t>(reconciler_.applied_rows(), 1);
  const auto steps = static_cast<Clock::rep>(rows / Repairer::kRows + 1);
  const auto by_cycle = std::chrono::duration_cast<Clock::duration>(options_.audit_cycle) / steps;
  const auto by_share = std::chrono::duration_cast<Clock::duration>(spent / options_.audit_share);
  audit_at_ = now + std::max(by_cycle, by_share);
  Notify(result);
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
  damage_.clear();
  damaged_by_.clear();
}

// Must change nothing but the store, because dry runs call this function, too.
Loop::BatchEffect Loop::ApplyChanges(const Batch& batch) {
  Store& store = reconciler_.store();
  std::vector<Finding> findings;
  BatchEffect taken;
  const auto apply = [&](const Change& change) {
    if (std::optional<Finding> over = OverLimit(store, change, options_.limits)) {
      store.AddToSnapshot(change.kind, change.key);
      findings.push_back(*std::move(over));
      return;
    }
    taken.any = true;
    // The family of a deleted slice is only known before the deletion.
    const Family family = change.triggered ? FamilyOf(store, change) : Family::kIpv4;
    Count(change, taken.seen);
    if (!store.Apply(change, sequence_)) return;
    taken.changed = true;
    Count(change, taken.net);
    if (change.triggered) taken.triggered.emplace_back(*change.triggered, family);
  };
  for (const auto& [kind, key] : batch.rejected) store.AddToSnapshot(kind, key);
  for (const Change& change : batch.changes) apply(change);
  for (const DeferredChange& late : batch.deferred) {
    store.AddToSnapshot(late.kind, late.key);
    DeferredChange::Result made = late.make(store);
    std::move(made.findings.begin(), made.findings.end(), std::back_inserter(findings));
    if (made.change) apply(*made.change);
  }
  if (batch.on_accepted) batch.on_accepted(findings);
  return taken;
}

void Loop::Accept(Batch batch, Clock::time_point submitted) {
  const auto start = Clock::now();
  if (batch.received) stages_.Add(Stage::kConvert, submitted - *batch.received);
  stages_.Add(Stage::kQueue, start - submitted);
  ++sequence_;
  if (batch.mark == Batch::Mark::kSnapshotBegin) {
    reconciler_.store().BeginSnapshot();
    // Takes effect at the end of the snapshot, unless an out-of-band change arrives before.
    session_is_synced_ = true;
  }
  const BatchEffect taken = ApplyChanges(batch);
  if (taken.changed && batch.out_of_band) session_is_synced_ = false;
  for (const auto& [time, family] : taken.triggered) triggers_.Add(sequence_, time, family);
  {
    const std::lock_guard lock(mutex_);
    status_.changes += taken.seen;
    status_.pending_changes += taken.net;
  }
  if (batch.mark == Batch::Mark::kSnapshotEnd) {
    reconciler_.store().EndSnapshot(sequence_);
    has_state_ = true;
    confirmed_ = true;
    keep_previous_rules_ = false;
  } else if (!reconciler_.store().in_snapshot() && taken.any) {
    has_state_ = true;
    // A replacement of existing rules is not split.
    split_allowed_ = split_allowed_ && reconciler_.applied().services().empty();
  }
  stages_.Add(Stage::kIntake, Clock::now() - start);
  if (!batch.done) return;
  Waiting waiting{sequence_, submitted, std::move(batch.done), {}};
  waiting.result.outcome = BatchResult::Outcome::kUnchanged;
  if (session_is_synced_ && !keep_previous_rules_ && !reconciler_.store().in_snapshot()) {
    waiting.result.token = reconciler_.store().token();
  }
  if (keep_previous_rules_) {
    waiting.result.outcome = BatchResult::Outcome::kPending;
    Answer(std::move(waiting));
    return;
  }
  waiting_.push_back(std::move(waiting));
}

void Loop::SyncOnce() {
  if (!reconciler_.Pending()) {
    if (waiting_.empty()) return;
    reconciler_.SaveObjects();
    SyncResult nothing;
    PublishStatus(nothing);
    NotifyCleaner(nothing);
    PublishTurn(/*answered=*/true);
    Answer(nothing, Clock::now());
    if (options_.on_stored) options_.on_stored();
    return;
  }
  const auto started = Clock::now();
  const size_t limit = split_allowed_ ? options_.max_elements : std::numeric_limits<size_t>::max();
  SyncResult result = reconciler_.Sync(limit);
  result.whole = Clock::now() - started;
  if (result.outcome == SyncResult::Outcome::kFailed) {
    retry_at_ = Clock::now() + backoff_.Failure();
    PublishStatus(result);
    CountStages(result, started);
    if (backoff_.failures() >= options_.patience) {
      AnswerAll(BatchResult::Outcome::kFailed, result.error);
    }
    return;
  }
  backoff_.Success();
  if (result.outcome == SyncResult::Outcome::kNothing) reconciler_.SaveObjects();
  if (result.recreated) repair_at_ = std::max(repair_at_, Clock::now() + result.duration);
  if (reconciler_.store().dirty_count() == 0) {
    split_allowed_ = true;
    reconciler_.ForgetPreviousRun();
  }
  PublishStatus(result);
  NotifyCleaner(result);
  NotifyHealthChecks(result);
  NotifyForwarder(result);
  CountStages(result, started);
  PublishTurn(/*answered=*/true);
  Answer(result, started);
  if (options_.on_answered) {
    options_.on_answered(result, reconciler_.store().dirty_count() == 0);
  }
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
  options_.cleaner->Update(std::move(result.udp), std::move(result.tcp));
  const bool complete =
      has_state_ && !reconciler_.store().in_snapshot() && reconciler_.store().dirty_count() == 0;
  if (complete) options_.cleaner->StateIsComplete();
}

// Answers a batch when all Services that it changed are programmed.
void Loop::Answer(const SyncResult& result, Clock::time_point started) {
  const bool committed = result.outcome == SyncResult::Outcome::kCommitted;
  for (const auto& [sequence, finding] : result.findings) {
    const auto waiting =
        std::find_if(waiting_.begin(), waiting_.end(),
                     [after = sequence](const Waiting& w) { return w.sequence >= after; });
    if (waiting != waiting_.end()) waiting->result.findings.push_back(finding);
  }
  for (Waiting& waiting : waiting_) {
    if (!committed) continue;
    waiting.result.outcome = BatchResult::Outcome::kCommitted;
    waiting.result.commit_duration = result.duration;
    waiting.result.queue_duration = started - waiting.submitted;
  }
  const uint64_t end = FirstUnprogrammed();
  while (!waiting_.empty() && waiting_.front().sequence < end) {
    Waiting waiting = std::move(waiting_.front());
    waiting_.pop_front();
    Answer(std::move(waiting));
  }
}

void Loop::Answer(Waiting waiting) {
  const auto start = Clock::now();
  waiting.result.revision = reconciler_.revision();
  waiting.done(std::move(waiting.result));
  stages_.Add(Stage::kAnswer, Clock::now() - start);
}

// Returns the sequence number of the first change that is not in the kernel.
uint64_t Loop::FirstUnprogrammed() const {
  const Store::Dirty* first = reconciler_.store().FirstDirty();
  return first == nullptr ? sequence_ + 1 : first->sequence;
}

void Loop::AnswerAll(BatchResult::Outcome outcome, const absl::Status& error) {
  for (Waiting& waiting : waiting_) {
    waiting.result.outcome = outcome;
    waiting.result.error = error;
    Answer(std::move(waiting));
  }
  waiting_.clear();
}

LoopStatus::State Loop::State() const {
  if (backoff_.failures() > 0) return LoopStatus::State::kRetrying;
  return has_state_ ? LoopStatus::State::kServing : LoopStatus::State::kWaitingForState;
}

void Loop::PublishStatus(const SyncResult& result) {
  LoopStatus status;
  const auto now = SystemClock::now();
  if (result.outcome != SyncResult::Outcome::kFailed) {
    triggers_.Programmed(FirstUnprogrammed(), now, options_.on_programmed);
  }
  {
    const std::lock_guard lock(mutex_);
    const Store& store = reconciler_.store();
    status_.state = State();
    status_.revision = reconciler_.revision();
    status_.services = store.service_count();
    status_.slices = store.slice_count();
    status_.nodes = store.nodes().size();
    status_.service_cidrs = store.service_cidrs().size();
    status_.object_bytes = store.bytes();
    status_.object_elements = store.elements();
    status_.pending_services = store.dirty_count();
    if (const Node* node = reconciler_.ThisNode()) status_.node_eligible = node->eligible;
    status_.service_ports = reconciler_.applied().service_ports();
    status_.elements = reconciler_.applied().counts();
    status_.no_local_endpoints = reconciler_.applied().no_local_endpoints();
    status_.last_error = result.error.ok() ? "" : std::string(result.error.message());
    if (result.outcome == SyncResult::Outcome::kFailed) {
      ++status_.failures;
    } else {
      status_.last_sync = now;
      status_.programming_latency = triggers_.latency();
      if (status_.pending_services == 0) status_.pending_changes = {};
    }
    if (result.outcome == SyncResult::Outcome::kCommitted) {
      ++status_.commits;
      status_.elements_written += result.elements;
      status_.recreations += result.recreated ? 1 : 0;
      status_.last_commit_duration = result.duration;
      status_.last_commit_elements = result.elements;
      status_.last_commit_time = now;
    }
    status = status_;
  }
  if (options_.on_sync) options_.on_sync(result, status);
}

}  // namespace svcmap::proxy
