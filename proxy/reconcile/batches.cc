// Acceptance of batches into the store, and their answers.
#include <algorithm>
#include <iterator>

#include "proxy/reconcile/loop.h"

namespace svcmap::proxy {

namespace {

// Returns IPv4 if the object has no family.
Family FamilyOf(const Store& store, const Change& change) {
  const auto slice = change.slice ? change.slice : store.Stored(change.kind, change.key).slice;
  return slice ? slice->family : Family::kIpv4;
}

}  // namespace

// Must change nothing but the store, because dry runs call this function, too.
Loop::BatchEffect Loop::ApplyChanges(const Batch& batch) {
  Store& store = reconciler_.store();
  store.SetRevision(reconciler_.revision());
  std::vector<Finding> findings;
  BatchEffect taken;
  const auto store_change = [&](const Change& change) {
    taken.any = true;
    // The family of a deleted slice is only known before the deletion.
    const Family family = change.triggered ? FamilyOf(store, change) : Family::kIpv4;
    taken.seen.Count(change.kind);
    if (!store.Apply(change, sequence_)) return;
    taken.changed = true;
    if (change.removal()) ++taken.removed[Index(change.kind)];
    taken.net.Count(change.kind);
    if (change.triggered) taken.triggered.emplace_back(*change.triggered, family);
  };
  const auto apply = [&](const Change& change) {
    std::optional<Finding> over = OverLimit(store, change, options_.limits);
    if (!over) return store_change(change);
    store.AddToSnapshot(change.kind, change.key);
    findings.push_back(*std::move(over));
    if (!change.slice || !batch.departures) return;
    const std::string* held = store.FindLatestSlice(change.key);
    if (held == nullptr) return;
    Change reduced = change;
    reduced.slice = batch.departures(*held, *change.slice);
    if (reduced.slice) store_change(reduced);
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
    reconciler_.store().SetRevision(reconciler_.revision());
    reconciler_.store().BeginSnapshot();
    held_.reset();
    if (received_ == Received::kNothing) received_ = Received::kPartial;
    // Takes effect at the end of the snapshot, unless an out-of-band change arrives before.
    session_is_synced_ = true;
  }
  BatchEffect effect = ApplyChanges(batch);
  if (effect.changed && batch.out_of_band) session_is_synced_ = false;
  for (const auto& [time, family] : effect.triggered) {
    triggers_.Add(sequence_, time, family);
  }
  {
    const std::lock_guard lock(mutex_);
    status_.changes += effect.seen;
    status_.pending_changes += effect.net;
    status_.waiting_changes = arrivals_.changes();
  }
  const bool held = FollowMark(batch, effect);
  stages_.Add(Stage::kIntake, Clock::now() - start);
  if (!batch.done) return;
  Waiting waiting{sequence_, submitted, std::move(batch.done), {}};
  waiting.result.removed = effect.removed;
  if (held) waiting.result.held = held_->snapshot.loss;
  if (Holding()) {
    waiting.result.outcome = BatchResult::Outcome::kPending;
    Answer(std::move(waiting));
    return;
  }
  waiting.result.outcome = held ? BatchResult::Outcome::kPending : BatchResult::Outcome::kUnchanged;
  if (session_is_synced_ && !reconciler_.store().in_snapshot()) {
    waiting.result.token = reconciler_.store().token();
  }
  waiting_.push_back(std::move(waiting));
}

bool Loop::FollowMark(Batch& batch, BatchEffect& effect) {
  using Mark = Batch::Mark;
  if (batch.mark == Mark::kSnapshotEnd) {
    held_ = Held{{.loss = batch.accept_removals ? "" : LossToHold(),
                  .since = std::chrono::system_clock::now()},
                 reconciler_.store().snapshot_size(),
                 std::move(batch.on_snapshot_ended)};
    if (!held_->snapshot.loss.empty()) return true;
    EndSnapshot(effect);
  } else if (batch.mark == Mark::kAcceptSnapshot) {
    if (held_) EndSnapshot(effect);
  } else if (held_) {
    // The controller may list more objects when its cache is complete.
    const size_t listed = reconciler_.store().snapshot_size();
    if (std::exchange(held_->listed, listed) >= listed && !Holding()) return false;
    held_->snapshot.loss = LossToHold();
    if (held_->snapshot.loss.empty()) EndSnapshot(effect);
  } else if (!reconciler_.store().in_snapshot() && effect.any) {
    // After a part of a snapshot, changes do not make the state complete.
    if (received_ == Received::kNothing) received_ = Received::kStored;
    // A replacement of existing rules is not split.
    split_allowed_ = split_allowed_ && reconciler_.applied().services().empty();
  }
  return false;
}

void Loop::EndSnapshot(BatchEffect& effect) {
  const KindCounts removed = reconciler_.store().EndSnapshot(sequence_);
  for (size_t kind = 0; kind < removed.size(); ++kind) effect.removed[kind] += removed[kind];
  if (held_->on_ended) held_->on_ended();
  held_.reset();
  received_ = Received::kComplete;
}

// Returns what the end of the open snapshot would remove, or "" if it may end.
std::string Loop::LossToHold() const {
  if (options_.hold_removals == 0) return "";
  const Store& store = reconciler_.store();
  if (!Holding()) return LossBeyond(store.LossOfSnapshot(), options_.hold_removals);
  const size_t before = reconciler_.previous_services();
  const size_t after = std::min(before, store.ServicesWithEndpoints());
  SnapshotLoss loss;
  loss.previous_services = {.lost = before - after, .before = before};
  return LossBeyond(loss, options_.hold_removals);
}

// Answers a batch when all Services that it changed are programmed.
void Loop::Answer(const SyncResult& result, Clock::time_point started) {
  const bool committed = result.outcome == SyncResult::Outcome::kCommitted;
  for (const PlanFinding& found : result.findings) {
    if (found.sequence == 0)
      continue;  // No batch caused it, for example the retry of a rejected Service.
    const auto waiting = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& w) {
      return w.sequence >= found.sequence;
    });
    if (waiting != waiting_.end()) waiting->result.findings.push_back(found.finding);
  }
  for (Waiting& waiting : waiting_) {
    if (!committed || !waiting.result.held.empty()) continue;
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

// Returns the sequence number of the first batch with a change that is not in the kernel.
uint64_t Loop::FirstUnprogrammed() const {
  const DirtyService* first = reconciler_.store().dirty().First();
  return first != nullptr ? first->sequence : sequence_ + 1;
}

void Loop::AnswerAll(const absl::Status& error) {
  for (Waiting& waiting : waiting_) {
    waiting.result.outcome = BatchResult::Outcome::kFailed;
    waiting.result.error = error;
    Answer(std::move(waiting));
  }
  waiting_.clear();
}

}  // namespace svcmap::proxy
