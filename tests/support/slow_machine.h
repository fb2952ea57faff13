// Longer waiting times on slow machines, such as emulated processors.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace svcmap::testing {

// Returns `limit`, multiplied by the environment variable SVCMAP_TEST_SLOW if it is greater than 1.
// Use the function only for time limits after which a test fails, because a test that passes never
// waits longer.
template <typename Duration>
Duration OnThisMachine(Duration limit) {
  const char* factor = std::getenv("SVCMAP_TEST_SLOW");
  return limit * std::max(1, factor == nullptr ? 1 : std::atoi(factor));
}

}  // namespace svcmap::testing
