// Converts times to Prometheus' format.
#pragma once

#include <chrono>

namespace svcmap::api {

inline double UnixTime(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace svcmap::api
