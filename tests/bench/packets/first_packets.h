// New flows one after the other, from one thread: how long each takes, or how many there can be.
#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/resolve/endpoints.h"
#include "tests/bench/packets/latencies.h"
#include "tests/bench/packets/packet_world.h"
#include "tests/support/socket_address.h"

namespace svcmap::bench {

struct FlowTarget {
  proxy::Protocol protocol = proxy::Protocol::kTcp;
  testing::SocketAddress destination;
};

// A series that takes longer ends with what it has: no broken path keeps a run for hours.
inline constexpr std::chrono::seconds kSeriesLimit{30};

// `count` new flows, each from a source port of its own. TCP: the time of connect(), then a reset.
// UDP: from sending one datagram to having it back.
absl::StatusOr<Latencies> MeasureFirstPackets(PacketWorld& world, const FlowTarget& target,
                                              int count);

struct ConnectionCount {
  int64_t made = 0;
  int64_t failed = 0;
  double seconds = 0;  // Of making them; the table of tracked flows is emptied in between.
  double per_second() const { return seconds > 0 ? static_cast<double>(made) / seconds : 0; }
};

// TCP: socket, bind, connect, reset; as often as it goes.
absl::StatusOr<ConnectionCount> CountConnections(PacketWorld& world, const FlowTarget& target,
                                                 std::chrono::duration<double> duration);

}  // namespace svcmap::bench
