// What controllers' streams may cost.
#pragma once

#include <chrono>
#include <cstdint>

namespace svcmap::api {

struct PushLimits {
  uint32_t max_batch_bytes = 16 * 1024 * 1024;
  uint32_t max_batches_in_flight = 64;              // Of one stream.
  uint64_t max_bytes_in_flight = 64 * 1024 * 1024;  // Likewise; one batch is always read.
  uint32_t max_streams = 16;                        // At one time.
  uint32_t max_watchers = 16;                       // Likewise; they are nobody's controllers.
  std::chrono::milliseconds open_within{10000};     // A stream without Open ends then.
  std::chrono::milliseconds greet_within{10000};    // A connection without HTTP/2 ends then.
};

}  // namespace svcmap::api
