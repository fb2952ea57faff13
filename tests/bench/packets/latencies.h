// What was measured of many flows.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace svcmap::bench {

// A flow that takes longer has failed. A SYN that was lost is sent again after a second.
inline constexpr std::chrono::milliseconds kFlowPatience{2000};

struct Latencies {
  std::vector<double> microseconds;  // Of those that succeeded.
  int64_t failed = 0;

  // Of all: those that failed, also at once, count as if somebody had waited for kFlowPatience.
  // Else who loses the slow ones would look fast.
  std::vector<double> WithFailures() const {
    std::vector<double> all = microseconds;
    all.insert(all.end(), static_cast<size_t>(failed),
               std::chrono::duration<double, std::micro>(kFlowPatience).count());
    return all;
  }

  int64_t count() const { return static_cast<int64_t>(microseconds.size()) + failed; }
};

}  // namespace svcmap::bench
