// Opens new flows sequentially in one thread. Measures the latency of each flow or the number of
// flows per second.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/resolve/endpoints.h"
#include "tests/bench/packets/packet_world.h"
#include "tests/support/socket_address.h"

namespace svcmap::bench {

// Time after which a flow counts as failed. The kernel retransmits a lost SYN after one second.
inline constexpr std::chrono::milliseconds kFlowPatience{2000};

// Latencies of many flows.
struct Latencies {
  std::vector<double> microseconds;  // Latencies of successful flows.
  int64_t failed = 0;

  // Returns the latencies of all flows. A failed flow counts as kFlowPatience, because otherwise a
  // compared implementation that loses slow flows would look fast.
  std::vector<double> WithFailures() const {
    std::vector<double> all = microseconds;
    all.insert(all.end(), static_cast<size_t>(failed),
               std::chrono::duration<double, std::micro>(kFlowPatience).count());
    return all;
  }

  int64_t count() const { return static_cast<int64_t>(microseconds.size()) + failed; }
};

struct FlowTarget {
  proxy::Protocol protocol = proxy::Protocol::kTcp;
  testing::SocketAddress destination;
};

// Maximum duration of a series of flows. A series that reaches the limit ends early, so that a
// broken network path cannot block a run.
inline constexpr std::chrono::seconds kSeriesLimit{30};

// Opens `count` new flows, each from a separate source port. For TCP, measures the duration of
// connect() and then resets the connection. For UDP, measures the round-trip time of one datagram.
absl::StatusOr<Latencies> MeasureFirstPackets(PacketWorld& world, const FlowTarget& target,
                                              int count);

struct ConnectionCount {
  int64_t made = 0;
  int64_t failed = 0;
  double seconds =
      0;  // Time spent on connections. Excludes the time to clear the connection tracking table.
  double per_second() const { return seconds > 0 ? static_cast<double>(made) / seconds : 0; }
};

// Counts TCP connections. Repeats the sequence socket, bind, connect and reset as fast as possible.
absl::StatusOr<ConnectionCount> CountConnections(PacketWorld& world, const FlowTarget& target,
                                                 std::chrono::duration<double> duration);

}  // namespace svcmap::bench
