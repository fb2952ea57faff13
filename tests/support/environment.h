// Parameters of tests in environment variables, and the sanitizers of this program.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace svcmap::testing {

// Returns the value of an environment variable as a number, or `otherwise` if the variable is not
// set.
inline int64_t NumberFromEnvironment(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::strtoll(value, nullptr, 10);
}

// Returns the factor for waiting times on slow machines, such as emulated processors: the
// environment variable SVCMAP_TEST_SLOW, or 1 if it is not greater than 1.
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

// Whether this program is built with the address or thread sanitizer. g++ and clang tell it in
// different ways.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SVCMAP_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SVCMAP_SANITIZED
#endif

#ifdef SVCMAP_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace svcmap::testing
