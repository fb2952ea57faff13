// What was measured of many flows.
#pragma once

#include <cstdint>
#include <vector>

namespace svcmap::bench {

struct Latencies {
  std::vector<double> microseconds;  // Of those that succeeded.
  int64_t failed = 0;

  int64_t count() const { return static_cast<int64_t>(microseconds.size()) + failed; }
};

}  // namespace svcmap::bench
