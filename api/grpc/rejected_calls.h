// Counts those who were refused, and logs them: at most one line for a client and second, so that
// one who tries for ever does not fill the log. Any thread.
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

  // Whether it was logged.
  bool Add(const std::string& client, const std::string& what,
           Clock::time_point now = Clock::now());

  uint64_t count() const { return count_; }

 private:
  std::atomic<uint64_t> count_ = 0;
  std::mutex mutex_;
  std::map<std::string, Clock::time_point> logged_;  // Of the last second; bounded.
};

}  // namespace svcmap::api
