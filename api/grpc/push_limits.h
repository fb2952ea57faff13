// Limits for the streams and connections of clients.
#pragma once

#include <chrono>
#include <cstdint>

namespace svcmap::api {

struct PushLimits {
  uint32_t max_batch_bytes = 16 * 1024 * 1024;
  uint32_t max_batches_in_flight = 64;              // Per stream.
  uint64_t max_bytes_in_flight = 64 * 1024 * 1024;  // Per stream. One batch may exceed it.
  uint32_t max_streams = 16;                        // Push streams per connection.
  uint32_t max_watchers = 16;                       // Watch streams of all clients.
  uint32_t max_connections = 64;                    // Connections of all clients.
  uint32_t max_connections_per_peer = 32;           // Per address, user or certificate name.
  std::chrono::milliseconds open_within{10000};     // Time until Open is received.
  std::chrono::milliseconds greet_within{10000};    // Time until the HTTP/2 preface.
  std::chrono::milliseconds unread_within{30000};   // Time until a client reads waiting bytes.
  // Time for a client to read a response: read_base, plus 1 s for each MiB, at most read_within.
  std::chrono::milliseconds read_base{10000};
  std::chrono::milliseconds read_within{60000};
};

}  // namespace svcmap::api
