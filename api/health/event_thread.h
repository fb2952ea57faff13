// A thread that runs an event loop. Objects that use the loop must be created before Start() and
// destroyed after Stop().
#pragma once

#include <functional>
#include <mutex>
#include <thread>

#include "api/health/event.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

class EventThread {
 public:
  // `on_wake` is called on the thread after Wake(). Several calls of Wake() may cause only one call
  // of `on_wake`.
  explicit EventThread(std::function<void()> on_wake = [] {});
  ~EventThread() { Stop(); }

  event_base* base() const { return base_.get(); }
  void Start();
  void Wake();  // Thread-safe.
  void Stop();  // May be called several times.

 private:
  void OnWake();
  void Run();

  const std::function<void()> on_wake_;
  const EventBase base_{event_base_new()};
  const UniqueFd wake_;
  Event woken_;
  std::mutex mutex_;
  bool stopping_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace svcmap::api
