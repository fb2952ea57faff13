// A thread that runs an event loop and nothing else: what belongs to the loop is made before
// Start() and goes after Stop().
#pragma once

#include <functional>
#include <mutex>
#include <thread>

#include "api/health/event.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

class EventThread {
 public:
  // `on_wake` is called on the thread after Wake(), once for several.
  explicit EventThread(std::function<void()> on_wake = [] {});
  ~EventThread() { Stop(); }

  event_base* base() const { return base_.get(); }
  void Start();
  void Wake();  // Any thread.
  void Stop();  // Again has no effect.

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
