// Counts and logs rejected calls and connections. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "api/screen/connection_limits.h"

namespace svcmap::api {

// Counts and logs rejected calls. Logs at most one line per client and second, so that repeated
// calls of a client do not fill the log.
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

// Counts rejected and closed connections by reason. Logs at most one line per peer and second.
class Rejections {
 public:
  // `peer` is part of the log line and the key of its rate limit. `detail` is a log field such as
  // "limit=32".
  void Add(Rejection reason, const std::string& peer, const std::string& detail);

  uint64_t count(Rejection reason) const { return counts_[static_cast<size_t>(reason)]; }

  // Sets the function that returns the number of open connections. If `connections` is null, the
  // number is 0.
  void SetConnections(std::function<size_t()> connections);
  size_t connections() const;

 private:
  std::array<std::atomic<uint64_t>, kRejections> counts_{};
  RejectedCalls log_;
  mutable std::mutex mutex_;
  std::function<size_t()> connections_;  // Guarded by mutex_.
};

}  // namespace svcmap::api
