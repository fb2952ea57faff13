// Helpers of the programs that measure svcmapd only. Errors end the program.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace svcmap::bench {

inline double Milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

[[noreturn]] inline void Fail(const std::string& why) {
  std::fprintf(stderr, "error: %s\n", why.c_str());
  std::exit(1);
}

inline void Need(const absl::Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

template <typename T>
T Need(absl::StatusOr<T> result) {
  Need(result.status());
  return *std::move(result);
}

}  // namespace svcmap::bench
