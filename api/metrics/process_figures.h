// What the kernel says of this process; what it does not say is 0.
#pragma once

#include <cstdint>

namespace svcmap::api {

struct ProcessFigures {
  double cpu_seconds = 0;
  uint64_t resident_bytes = 0;
  uint64_t virtual_bytes = 0;
  uint64_t max_virtual_bytes = 0;  // All bits set: as much as it likes.
  uint64_t open_fds = 0;
  uint64_t max_fds = 0;
  double start_time = 0;  // Unix time.
};

ProcessFigures ReadProcessFigures();

}  // namespace svcmap::api
