// Counts and logs rejected calls. Logs at most one line per client and second, so that repeated
// calls of a client do not fill the log. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace svcmap::api {

class RejectedCalls {
 public:
  using Clock = std::chrono::steady_clock;

  // Counts a call. Returns true if the call was logged.
  bool Add(const std::string& client, const std::string& what,
           Clock::time_point now = Clock::now());

  uint64_t count() const { return count_; }

 private:
  std::atomic<uint64_t> count_ = 0;
  std::mutex mutex_;
  std::map<std::string, Clock::time_point> logged_;  // Clients of the last second.
};

}  // namespace svcmap::api
