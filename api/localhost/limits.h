// Limits of the forwarder for nodePorts on loopback addresses.
#pragma once

#include <chrono>
#include <cstddef>

namespace svcmap::api {

// Maximum number of open connections of all nodePorts.
inline constexpr size_t kMaxForwardedConnections = 1024;
// File descriptors of a connection: two sockets, and a pipe for each direction.
inline constexpr size_t kDescriptorsPerConnection = 6;

// A connection is reset if this number of endpoints did not accept it.
inline constexpr size_t kMaxConnectAttempts = 3;
inline constexpr std::chrono::milliseconds kConnectTimeout{5000};

// Maximum number of bytes in a pipe, which is the default capacity of a pipe.
inline constexpr size_t kPipeBytes = 64 << 10;
// After this number of transfers in a row, a connection waits until the other connections have
// had their turn.
inline constexpr int kTransfersInARow = 16;
// After this number of accepted connections in a row, a listener waits in the same way.
inline constexpr int kAcceptsInARow = 64;
// Pause of a listener after a failed accept, for example if no file descriptor is free.
inline constexpr std::chrono::milliseconds kAcceptPause{100};

// Minimum time between two log lines about connections that are reset because of the limit.
inline constexpr std::chrono::seconds kRejectionLogInterval{60};

}  // namespace svcmap::api
