// Distributes the agent's events to watchers. The hub stores the last kKept events once for all
// watchers. Each watcher reads at its own pace, and the event numbers show which events the watcher
// has missed. Publishing an event never waits for a watcher. A thread of the hub wakes watchers
// that have read all events, and then pauses, because waking watchers uses CPU time that the
// publishing threads need. Thread-safe.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/reconcile/loop.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

class WatchStream;  // A stream to a watcher.

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
  absl::StatusOr<uint64_t> Join(std::shared_ptr<WatchStream> watcher, const std::string& peer,
                                uint32_t limit);
  void Leave(const WatchStream& watcher);

  // Returns the first stored event after `number` for a watcher that has joined. If there is no
  // such event yet, returns null, and wakes the watcher later.
  std::shared_ptr<const v1::WatchEvent> Next(const WatchStream& watcher, uint64_t number);

  // Ends all watchers. No watcher is woken after End has returned.
  void End();

 private:
  struct Joined {
    std::shared_ptr<WatchStream> watcher;
    std::string peer;
    bool has_read_all = false;
    bool wake = true;
  };

  // Counts an event. Calls `fill` only if there are watchers. Requires `mutex_`.
  template <typename Fill>
  void Add(const Fill& fill);
  void Run();

  std::mutex mutex_;  // Guards the members below, except the thread.
  std::condition_variable wake_;
  uint64_t number_ = 0;  // Number of the last event.
  // Consecutive events, including the last event.
  std::deque<std::shared_ptr<const v1::WatchEvent>> kept_;
  std::vector<Joined> watchers_;
  bool ended_ = false;
  uint64_t failures_ = 0;  // Number of consecutive failed syncs.
  std::chrono::steady_clock::time_point failing_since_;

  std::thread thread_;
};

// Returns a stream that joins `hub` and sends the agent's status, and then events in order. Ends
// immediately if the hub has `limit` watchers already, or if a quarter of `limit` belongs to
// `peer`. Calls `fill_status` once on the hub's thread. Deletes itself at the end of the stream.
grpc::ServerWriteReactor<v1::WatchEvent>* NewWatchStream(
    WatchHub& hub, const std::string& peer, uint32_t limit,
    std::function<void(v1::GetStatusResponse&)> fill_status);

}  // namespace svcmap::api
