// Longer waiting times on slow machines, such as emulated processors.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace svcmap::testing {

// Returns the environment variable SVCMAP_TEST_SLOW, or 1 if it is not greater than 1.
inline int SlowFactor() {
  const char* factor = std::getenv("SVCMAP_TEST_SLOW");
  return std::max(1, factor == nullptr ? 1 : std::atoi(factor));
}

// Returns `limit`, multiplied by SlowFactor(). Use the function only for time limits after which a
// test fails, because a test that passes never waits longer.
template <typename Duration>
Duration OnThisMachine(Duration limit) {
  return limit * SlowFactor();
}

}  // namespace svcmap::testing
