// Latencies of many flows.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace svcmap::bench {

// A longer flow counts as failed. A lost SYN is retransmitted after one second.
inline constexpr std::chrono::milliseconds kFlowPatience{2000};

struct Latencies {
  std::vector<double> microseconds;  // Of successful flows.
  int64_t failed = 0;

  // Over all flows. A failed flow counts as kFlowPatience; otherwise an opponent that loses slow
  // flows would look fast.
  std::vector<double> WithFailures() const {
    std::vector<double> all = microseconds;
    all.insert(all.end(), static_cast<size_t>(failed),
               std::chrono::duration<double, std::micro>(kFlowPatience).count());
    return all;
  }

  int64_t count() const { return static_cast<int64_t>(microseconds.size()) + failed; }
};

}  // namespace svcmap::bench
