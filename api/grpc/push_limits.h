// What controllers' streams may cost.
#pragma once

#include <chrono>
#include <cstdint>

namespace svcmap::api {

struct PushLimits {
  uint32_t max_batch_bytes = 16 * 1024 * 1024;
  uint32_t max_batches_in_flight = 64;              // Of one stream.
  uint64_t max_bytes_in_flight = 64 * 1024 * 1024;  // Likewise; one batch is always read.
  uint32_t max_streams = 16;                        // Of one connection, at one time.
  uint32_t max_watchers = 16;                       // Likewise; they are nobody's controllers.
  uint32_t max_connections = 64;                    // Of all clients.
  uint32_t max_connections_per_peer = 32;           // Of one address, user or certificate name.
  std::chrono::milliseconds open_within{10000};     // A stream without Open ends then.
  std::chrono::milliseconds greet_within{10000};    // A connection without HTTP/2 ends then.
  std::chrono::milliseconds read_within{60000};     // Time for a client to read a response.
};

}  // namespace svcmap::api
