// Latencies of many flows.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace svcmap::bench {

// Time after which a flow counts as failed. The kernel retransmits a lost SYN after one second.
inline constexpr std::chrono::milliseconds kFlowPatience{2000};

struct Latencies {
  std::vector<double> microseconds;  // Latencies of successful flows.
  int64_t failed = 0;

  // Returns the latencies of all flows. A failed flow counts as kFlowPatience, because otherwise a
  // compared implementation that loses slow flows would look fast.
  std::vector<double> WithFailures() const {
    std::vector<double> all = microseconds;
    all.insert(all.end(), static_cast<size_t>(failed),
               std::chrono::duration<double, std::micro>(kFlowPatience).count());
    return all;
  }

  int64_t count() const { return static_cast<int64_t>(microseconds.size()) + failed; }
};

}  // namespace svcmap::bench
