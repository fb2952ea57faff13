// Counts rejected and closed connections by reason. Logs at most one line per peer and second.
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "api/screen/connection_limits.h"
#include "api/screen/rejected_calls.h"

namespace svcmap::api {

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
