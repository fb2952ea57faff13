#include "api/grpc/watch_hub.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "api/convert/convert.h"
#include "api/grpc/status.h"

namespace svcmap::api {
namespace {

constexpr char kWatchEnd[] = "the agent is stopping";
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

// No function waits for the client. While a message is being sent, the hub stores new events and
// drops the oldest events.
class WatchStream final : public grpc::ServerWriteReactor<v1::WatchEvent>,
                          public std::enable_shared_from_this<WatchStream> {
 public:
  WatchStream(WatchHub& hub, std::function<void(v1::GetStatusResponse&)> fill_status)
      : hub_(hub), fill_status_(std::move(fill_status)) {}

  void Start(const std::string& peer, uint32_t limit) {
    self_ = shared_from_this();
    const std::lock_guard lock(mutex_);
    const absl::StatusOr<uint64_t> joined = hub_.Join(self_, peer, limit);
    if (joined.ok()) {
      number_ = *joined;
    } else {
      const bool stopping = absl::IsUnavailable(joined.status());
      Close(stopping ? Error(grpc::UNAVAILABLE, v1::STOPPING, kWatchEnd)
                     : Error(grpc::RESOURCE_EXHAUSTED, v1::LIMIT_REACHED,
                             std::string(joined.status().message()),
                             {{"flag", "--max-watchers"}, {"limit", std::to_string(limit)}}));
    }
  }

  // Called on the hub's thread when there may be an event: once after WatchHub::Join(), and once
  // after each WatchHub::Next() that returned null.
  void Wake() {
    if (!std::exchange(sent_status_, true)) {
      SendStatus();
      return;
    }
    const std::lock_guard lock(mutex_);
    MaybeWrite();
  }

  // Called at most once, when there will be no more events.
  void End() {
    const std::lock_guard lock(mutex_);
    Close(Error(grpc::UNAVAILABLE, v1::STOPPING, kWatchEnd));
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (ok) {
      MaybeWrite();
    } else {
      Close(grpc::Status::CANCELLED);
    }
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    Close(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    hub_.Leave(*this);
    self_.reset();  // The hub may still have a reference.
  }

 private:
  // Reads the status of the loop. Must be called without mutex_.
  void SendStatus() {
    v1::GetStatusResponse status;
    fill_status_(status);
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    event_.set_number(number_);
    SetTimestamp(*event_.mutable_time(), std::chrono::system_clock::now());
    *event_.mutable_status() = std::move(status);
    StartWrite(&event_);
  }

  void MaybeWrite() {
    if (finished_ || writing_) return;
    const std::shared_ptr<const v1::WatchEvent> next = hub_.Next(*this, number_);
    if (!next) return;
    event_ = *next;
    event_.set_lost(next->number() - number_ - 1);
    number_ = next->number();
    writing_ = true;
    StartWrite(&event_);
  }

  void Close(const grpc::Status& status) {
    if (!std::exchange(finished_, true)) Finish(status);
  }

  WatchHub& hub_;
  const std::function<void(v1::GetStatusResponse&)> fill_status_;
  bool sent_status_ = false;  // Used only on the hub's thread.

  std::mutex mutex_;  // Guards the members below. Locked before the hub's mutex.
  v1::WatchEvent event_;
  uint64_t number_ = 0;  // Number of the last sent event.
  bool writing_ = true;  // The first message is the status.
  bool finished_ = false;

  std::shared_ptr<WatchStream> self_;
};

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
    wake_.notify_one();
  }
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
    v1::WatchRecovered& recovered = *event.mutable_recovered();
    recovered.set_revision(revision);
    SetDuration(*recovered.mutable_after(), std::chrono::steady_clock::now() - failing_since_);
    recovered.set_failures(failures);
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

absl::StatusOr<uint64_t> WatchHub::Join(std::shared_ptr<WatchStream> watcher,
                                        const std::string& peer, uint32_t limit) {
  const std::lock_guard lock(mutex_);
  if (ended_) return absl::UnavailableError(kWatchEnd);
  if (watchers_.size() >= limit) {
    return absl::ResourceExhaustedError("no more than --max-watchers " + std::to_string(limit) +
                                        " watchers at a time; stream rejected");
  }
  const uint32_t share = std::max(limit / 4, 1u);
  const auto used = std::ranges::count(watchers_, peer, &Joined::peer);
  if (used >= static_cast<int64_t>(share)) {
    return absl::ResourceExhaustedError("no more than " + std::to_string(share) +
                                        " watchers of one client at a time, a quarter of "
                                        "--max-watchers " +
                                        std::to_string(limit) + "; stream rejected");
  }
  watchers_.push_back({std::move(watcher), peer});
  wake_.notify_one();
  return number_;
}

void WatchHub::Leave(const WatchStream& watcher) {
  std::shared_ptr<WatchStream> last;  // Possibly the last reference, destroyed without the lock.
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      watchers_, [&](const Joined& joined) { return joined.watcher.get() == &watcher; });
  if (found == watchers_.end()) return;
  last = std::move(found->watcher);
  watchers_.erase(found);
  if (watchers_.empty()) kept_.clear();
}

std::shared_ptr<const v1::WatchEvent> WatchHub::Next(const WatchStream& watcher, uint64_t number) {
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
    std::vector<std::shared_ptr<WatchStream>> awake;
    for (Joined& joined : watchers_) {
      if (std::exchange(joined.wake, false)) awake.push_back(joined.watcher);
    }
    if (awake.empty()) {
      wake_.wait(lock);
      continue;
    }
    lock.unlock();
    for (const std::shared_ptr<WatchStream>& watcher : awake) watcher->Wake();
    awake.clear();
    std::this_thread::sleep_for(kRest);
    lock.lock();
  }
}

grpc::ServerWriteReactor<v1::WatchEvent>* NewWatchStream(
    WatchHub& hub, const std::string& peer, uint32_t limit,
    std::function<void(v1::GetStatusResponse&)> fill_status) {
  const auto stream = std::make_shared<WatchStream>(hub, std::move(fill_status));
  stream->Start(peer, limit);
  return stream.get();
}

}  // namespace svcmap::api
