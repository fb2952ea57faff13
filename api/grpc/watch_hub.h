// What happens at the agent, for those who watch. The last kKept events are kept, once for all
// watchers; each reads them at its own pace and sees from the numbers what it came too late for.
// Whoever tells something waits for no watcher: a thread of the hub's wakes those that had read
// everything, and rests a moment after it did, as waking is what costs who tells. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
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
  // There may be something to read: once after it has joined, and once for each Next() that had
  // nothing. On the hub's thread.
  virtual void Wake() = 0;
  // Nothing more will be told. At most once.
  virtual void End() = 0;
};

class WatchHub {
 public:
  static constexpr size_t kKept = 256;

  WatchHub() : thread_([this] { Run(); }) {}
  ~WatchHub() { End(); }

  void PublishSync(const proxy::SyncResult& result, uint64_t revision);
  void PublishRepair(const proxy::Repaired& repaired);
  void PublishFindings(const std::vector<proxy::Finding>& findings);
  void PublishController(const v1::WatchController& controller);

  // The number of the last event before it joined. kResourceExhausted if there are `limit` watchers
  // already, kUnavailable after End().
  absl::StatusOr<uint64_t> Join(std::shared_ptr<Watcher> watcher, uint32_t limit);
  void Leave(const Watcher& watcher);

  // The first event that is kept of those after `number`, for one who has joined. Null: there is
  // none yet; the watcher will be woken.
  std::shared_ptr<const v1::WatchEvent> Next(const Watcher& watcher, uint64_t number);

  // Ends all watchers; none is woken any more when it returns.
  void End();

 private:
  struct Joined {
    std::shared_ptr<Watcher> watcher;
    bool has_read_all = false;
    bool wake = true;
  };

  // Counts an event; made by `fill` if somebody watches. `mutex_` is held.
  template <typename Fill>
  void Add(const Fill& fill);
  void WakeThread();  // Likewise.
  void Run();

  std::mutex mutex_;  // Guards what follows, but the thread.
  std::condition_variable wake_;
  uint64_t number_ = 0;                                     // Of the last event.
  std::deque<std::shared_ptr<const v1::WatchEvent>> kept_;  // Up to the last one, without gaps.
  std::vector<Joined> watchers_;
  bool ended_ = false;
  bool asleep_ = false;    // The thread is, until it is woken.
  uint64_t failures_ = 0;  // Of syncs, in a row.
  std::chrono::steady_clock::time_point failing_since_;

  std::thread thread_;
};

}  // namespace svcmap::api
