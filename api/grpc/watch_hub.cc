#include "api/grpc/watch_hub.h"

#include <algorithm>
#include <string>
#include <utility>

#include "api/convert/convert.h"
#include "api/grpc/status.h"
#include "api/grpc/status_report.h"

namespace svcmap::api {
namespace {

constexpr std::chrono::milliseconds kRest{1};
constexpr int kMaxWatchedFindings = 100;  // Per event. Others are counted.

v1::WatchRepair::Outcome OutcomeOf(proxy::RepairResult::Outcome outcome) {
  switch (outcome) {
    case proxy::RepairResult::Outcome::kRepaired:
      return v1::WatchRepair::REPAIRED;
    case proxy::RepairResult::Outcome::kRewrite:
      return v1::WatchRepair::REWRITE;
    case proxy::RepairResult::Outcome::kFailed:
      return v1::WatchRepair::NOT_YET;
    case proxy::RepairResult::Outcome::kNothing:
      break;
  }
  return v1::WatchRepair::OUTCOME_UNSPECIFIED;
}

void FillCommit(const proxy::SyncResult& result, uint64_t revision, v1::WatchCommit& commit) {
  commit.set_revision(revision);
  SetDuration(*commit.mutable_duration(), result.duration);
  commit.set_elements(result.elements);
  commit.set_services(result.udp.size());  // One entry per committed Service.
  commit.set_tables_written(result.recreated);
}

void FillRecovered(uint64_t revision, std::chrono::nanoseconds after, uint64_t failures,
                   v1::WatchRecovered& recovered) {
  recovered.set_revision(revision);
  SetDuration(*recovered.mutable_after(), after);
  recovered.set_failures(failures);
}

void FillRepair(const proxy::RepairResult& result, v1::WatchRepair& repair) {
  repair.set_outcome(OutcomeOf(result.outcome));
  repair.set_damage(result.damage);
  repair.set_process(result.process);
  repair.set_elements(result.elements);
  repair.set_chains(result.chains);
  if (result.outcome == proxy::RepairResult::Outcome::kRepaired) {
    SetDuration(*repair.mutable_duration(), result.duration);
  }
  repair.set_error(std::string(result.error.message()));
}

void AddFinding(const proxy::Finding& finding, v1::WatchFindings& findings) {
  if (findings.results_size() < kMaxWatchedFindings) {
    *findings.add_results() = api::ToProto(finding);
  } else {
    findings.set_more(findings.more() + 1);
  }
}

}  // namespace

template <typename Fill>
void WatchHub::Add(const Fill& fill) {
  ++number_;
  if (watchers_.empty()) return;
  auto event = std::make_shared<v1::WatchEvent>();
  event->set_number(number_);
  SetTimestamp(*event->mutable_time(), std::chrono::system_clock::now());
  fill(*event);
  kept_.push_back(std::move(event));
  if (kept_.size() > kKept) kept_.pop_front();
  for (Joined& joined : watchers_) {
    if (!std::exchange(joined.has_read_all, false)) continue;
    joined.wake = true;
    WakeThread();
  }
}

void WatchHub::WakeThread() {
  if (std::exchange(asleep_, false)) wake_.notify_one();
}

void WatchHub::PublishSync(const proxy::SyncResult& result, uint64_t revision) {
  using Outcome = proxy::SyncResult::Outcome;
  const std::lock_guard lock(mutex_);
  if (result.outcome == Outcome::kFailed) {
    if (failures_++ == 0) failing_since_ = std::chrono::steady_clock::now();
    Add([&](v1::WatchEvent& event) {
      event.mutable_sync_failed()->set_error(std::string(result.error.message()));
    });
    return;
  }
  if (result.outcome == Outcome::kCommitted) {
    Add([&](v1::WatchEvent& event) { FillCommit(result, revision, *event.mutable_commit()); });
  }
  if (!result.findings.empty()) {
    Add([&](v1::WatchEvent& event) {
      for (const proxy::PlanFinding& found : result.findings) {
        AddFinding(found.finding, *event.mutable_findings());
      }
    });
  }
  const uint64_t failures = std::exchange(failures_, 0);
  if (failures == 0) return;
  Add([&](v1::WatchEvent& event) {
    FillRecovered(revision, std::chrono::steady_clock::now() - failing_since_, failures,
                  *event.mutable_recovered());
  });
}

void WatchHub::PublishRepair(const proxy::RepairResult& result) {
  const std::lock_guard lock(mutex_);
  Add([&](v1::WatchEvent& event) { FillRepair(result, *event.mutable_repair()); });
}

void WatchHub::PublishFindings(const std::vector<proxy::Finding>& findings) {
  if (findings.empty()) return;
  const std::lock_guard lock(mutex_);
  Add([&](v1::WatchEvent& event) {
    for (const proxy::Finding& finding : findings) AddFinding(finding, *event.mutable_findings());
  });
}

void WatchHub::PublishController(const v1::WatchController& controller) {
  const std::lock_guard lock(mutex_);
  Add([&](v1::WatchEvent& event) { *event.mutable_controller() = controller; });
}

absl::StatusOr<uint64_t> WatchHub::Join(std::shared_ptr<Watcher> watcher, const std::string& peer,
                                        uint32_t limit) {
  const std::lock_guard lock(mutex_);
  if (ended_) return absl::UnavailableError(kWatchEnd);
  if (watchers_.size() >= limit) {
    return absl::ResourceExhaustedError("no more than --max-watchers " + std::to_string(limit) +
                                        " watchers at a time; stream rejected");
  }
  const uint32_t share = std::max(limit / 4, 1u);
  const auto used = std::count_if(watchers_.begin(), watchers_.end(),
                                  [&](const Joined& joined) { return joined.peer == peer; });
  if (used >= static_cast<int64_t>(share)) {
    return absl::ResourceExhaustedError("no more than " + std::to_string(share) +
                                        " watchers of one client at a time, a quarter of "
                                        "--max-watchers " +
                                        std::to_string(limit) + "; stream rejected");
  }
  watchers_.push_back({std::move(watcher), peer});
  WakeThread();
  return number_;
}

void WatchHub::Leave(const Watcher& watcher) {
  std::shared_ptr<Watcher>
      last;  // Possibly the last reference, which is destroyed without the lock.
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(watchers_.begin(), watchers_.end(), [&](const Joined& joined) {
    return joined.watcher.get() == &watcher;
  });
  if (found == watchers_.end()) return;
  last = std::move(found->watcher);
  watchers_.erase(found);
  if (watchers_.empty()) kept_.clear();
}

std::shared_ptr<const v1::WatchEvent> WatchHub::Next(const Watcher& watcher, uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (number < number_ && !kept_.empty()) {
    const uint64_t first = kept_.front()->number();
    return kept_[number < first ? 0 : number + 1 - first];
  }
  for (Joined& joined : watchers_) {
    if (joined.watcher.get() == &watcher) joined.has_read_all = true;
  }
  return nullptr;
}

void WatchHub::End() {
  std::vector<Joined> watchers;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    watchers.swap(watchers_);
  }
  wake_.notify_one();
  thread_.join();
  for (const Joined& joined : watchers) joined.watcher->End();
}

void WatchHub::Run() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    std::vector<std::shared_ptr<Watcher>> awake;
    for (Joined& joined : watchers_) {
      if (std::exchange(joined.wake, false)) awake.push_back(joined.watcher);
    }
    if (awake.empty()) {
      asleep_ = true;
      wake_.wait(lock, [this] { return !asleep_ || ended_; });
      continue;
    }
    lock.unlock();
    for (const std::shared_ptr<Watcher>& watcher : awake) watcher->Wake();
    awake.clear();
    lock.lock();
    wake_.wait_for(lock, kRest, [this] { return ended_; });
  }
}

}  // namespace svcmap::api
