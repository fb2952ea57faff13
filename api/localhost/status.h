// Values of the forwarder for the metrics.
#pragma once

#include <cstdint>

namespace svcmap::api {

// Arrays are indexed by Index(Family).
struct LocalhostForwarderStatus {
  uint64_t listeners[2] = {};
  uint64_t listener_failures[2] = {};
  uint64_t connections = 0;
  uint64_t rejected_connections = 0;  // Connections reset because too many were open.
};

}  // namespace svcmap::api
