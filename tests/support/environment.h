// Parameters of tests in environment variables.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace svcmap::testing {

// Returns the value of an environment variable as a number, or `otherwise` if the variable is not
// set.
inline int64_t NumberFromEnvironment(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::strtoll(value, nullptr, 10);
}

}  // namespace svcmap::testing
