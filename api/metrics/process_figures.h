// Resource usage of this process. Values that cannot be read are 0.
#pragma once

#include <cstdint>

namespace svcmap::api {

struct ProcessFigures {
  double cpu_seconds = 0;
  uint64_t resident_bytes = 0;
  uint64_t virtual_bytes = 0;
  uint64_t max_virtual_bytes = 0;  // RLIM_INFINITY (all bits set) if unlimited.
  uint64_t open_fds = 0;
  uint64_t max_fds = 0;
  double start_time = 0;  // Unix time at which the process started.
};

ProcessFigures ReadProcessFigures();

}  // namespace svcmap::api
