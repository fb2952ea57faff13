// Waiting in a thread that can be stopped.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace svcmap::api {

// Waits until `time`. Returns false as soon as `stop` is requested.
inline bool WaitUntil(const std::stop_token& stop, std::chrono::steady_clock::time_point time) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_until(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace svcmap::api
