// Distributes the agent's events to watchers. The hub stores the last kKept events once for all
// watchers. Each watcher reads at its own pace, and the event numbers show which events the watcher
// has missed. Publishing an event never waits for a watcher. A thread of the hub wakes watchers
// that have read all events, and then pauses, because waking watchers uses CPU time that the
// publishing threads need. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/reconcile/loop.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

inline constexpr char kWatchEnd[] = "the agent is stopping";

class Watcher {
 public:
  virtual ~Watcher() = default;
  // Called on the hub's thread when there may be an event: once after Join(), and once after each
  // Next() that returned null.
  virtual void Wake() = 0;
  // Called at most once, when there will be no more events.
  virtual void End() = 0;
};

class WatchHub {
 public:
  static constexpr size_t kKept = 256;

  WatchHub() : thread_([this] { Run(); }) {}
  ~WatchHub() { End(); }

  void PublishSync(const proxy::SyncResult& result, uint64_t revision);
  void PublishRepair(const proxy::RepairResult& result);
  void PublishFindings(const std::vector<proxy::Finding>& findings);
  void PublishController(const v1::WatchController& controller);

  // Adds a watcher of `peer` and returns the number of the last event. Returns kResourceExhausted
  // if there are `limit` watchers already, or if a quarter of `limit` belongs to `peer`. Returns
  // kUnavailable after End().
  absl::StatusOr<uint64_t> Join(std::shared_ptr<Watcher> watcher, const std::string& peer,
                                uint32_t limit);
  void Leave(const Watcher& watcher);

  // Returns the first stored event after `number` for a watcher that has joined. If there is no
  // such event yet, returns null, and wakes the watcher later.
  std::shared_ptr<const v1::WatchEvent> Next(const Watcher& watcher, uint64_t number);

  // Ends all watchers. No watcher is woken after End has returned.
  void End();

 private:
  struct Joined {
    std::shared_ptr<Watcher> watcher;
    std::string peer;
    bool has_read_all = false;
    bool wake = true;
  };

  // Counts an event. Calls `fill` only if there are watchers. Requires `mutex_`.
  template <typename Fill>
  void Add(const Fill& fill);
  void WakeThread();  // Requires `mutex_`.
  void Run();

  std::mutex mutex_;  // Guards the members below, except the thread.
  std::condition_variable wake_;
  uint64_t number_ = 0;  // Number of the last event.
  std::deque<std::shared_ptr<const v1::WatchEvent>>
      kept_;  // Consecutive, including the last event.
  std::vector<Joined> watchers_;
  bool ended_ = false;
  bool asleep_ = false;    // True if the thread waits to be woken.
  uint64_t failures_ = 0;  // Number of consecutive failed syncs.
  std::chrono::steady_clock::time_point failing_since_;

  std::thread thread_;
};

}  // namespace svcmap::api
