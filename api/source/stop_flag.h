// Ends a worker thread. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace svcmap::source {

class StopFlag {
 public:
  void Set() {
    {
      const std::lock_guard lock(mutex_);
      set_ = true;
    }
    changed_.notify_all();
  }
  bool is_set() const {
    const std::lock_guard lock(mutex_);
    return set_;
  }
  // Waits until `time`. Returns false if the worker must stop.
  bool WaitUntil(std::chrono::steady_clock::time_point time) {
    std::unique_lock lock(mutex_);
    return !changed_.wait_until(lock, time, [this] { return set_; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

}  // namespace svcmap::source
