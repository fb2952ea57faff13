// TCP nodePorts on loopback addresses (S-113). The rules cannot translate packets to loopback
// addresses, so api/localhost forwards these connections.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/resolve/endpoints.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

// A TCP nodePort of a Service in one IP family, and its endpoints for external traffic.
struct LocalhostNodePort {
  Family family = Family::kIpv4;
  uint16_t port = 0;
  std::vector<EndpointAddress> endpoints;  // Ascending, without duplicates.
  // Weights of `endpoints`, in the same order. Empty if all weights are equal.
  std::vector<uint16_t> weights;
  uint32_t affinity_seconds = 0;  // 0 without session affinity.

  friend bool operator==(const LocalhostNodePort&, const LocalhostNodePort&) = default;
};

using LocalhostNodePorts = std::vector<LocalhostNodePort>;
// Pairs of a Service key and the Service's nodePorts on loopback addresses.
using LocalhostNodePortChanges = std::vector<std::pair<std::string, LocalhostNodePorts>>;

// Returns the nodePorts of a Service in the families for which `families` is true, by
// Index(Family). `entry` may be null. If several Services use the same nodePort, only the Service
// that owns the nodePort in `claims` gets it.
LocalhostNodePorts LocalhostNodePortsOf(const ServiceEntry* entry, const Claims& claims,
                                        const NodePlace& place, const bool (&families)[2]);

// Picks endpoints for the connections to one nodePort on a loopback address. Not thread-safe.
// Reads no clock and no random source; the caller provides both.
class EndpointPicker {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Replaces the endpoints. Deletes the session affinity record if its endpoint was removed.
  void Set(LocalhostNodePort node_port);

  // Returns an endpoint that is not in `tried`, or nullopt if there is none. With session affinity,
  // returns the endpoint of the previous connection until the timeout has passed. Otherwise, picks
  // an endpoint by weight, where `random` is uniformly distributed over all values.
  std::optional<EndpointAddress> Pick(const std::vector<EndpointAddress>& tried, uint64_t random,
                                      Time now) const;

  // Call when a connection to `endpoint` is established. All clients are processes on this node and
  // count as one client, so session affinity has only one record. Each new connection extends the
  // timeout of this record.
  void Connected(const EndpointAddress& endpoint, Time now);

 private:
  struct Record {
    EndpointAddress endpoint;
    Time expires;
  };

  bool Has(const EndpointAddress& endpoint) const;
  uint64_t WeightOf(size_t index, const std::vector<EndpointAddress>& tried) const;

  LocalhostNodePort node_port_;
  std::optional<Record> affinity_;
};

}  // namespace svcmap::proxy
