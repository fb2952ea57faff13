// Limits for the streams and connections of clients.
#pragma once

#include <chrono>
#include <cstdint>

namespace svcmap::api {

// Maximum number of objects in a message. Each rejected object has a result of about 1 KB, so
// without this limit a message of 4 MiB with empty objects needed 1 GB of memory.
inline constexpr int kMaxBatchObjects = 65536;

// Time for a client to read a response: `base`, plus one second for each MiB that the client has
// read, but at most `most`.
struct ReadingLimits {
  std::chrono::milliseconds base{10000};
  std::chrono::milliseconds most{60000};
};

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
  ReadingLimits read_within;
};

}  // namespace svcmap::api
