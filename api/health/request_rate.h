// Limits the number of responses per second on one connection, see api/health/limits.h. The times
// that it permits also order the delayed responses of all connections: a connection with fewer
// requests receives its response first. Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>

#include "api/health/limits.h"

namespace svcmap::api {

class RequestRate {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RequestRate(Clock::time_point now) : recovered_(now) {}

  // Returns the time from which the limit permits the next response.
  Clock::time_point permitted() const {
    return recovered_ - (kRequestBurst - 1) * kRequestInterval;
  }
  bool has_response() const { return has_response_; }
  void CountResponse(Clock::time_point now) {
    has_response_ = true;
    recovered_ = std::max(recovered_, now) + kRequestInterval;
  }

 private:
  // Time at which a complete burst of requests is permitted again.
  Clock::time_point recovered_;
  bool has_response_ = false;
};

}  // namespace svcmap::api
