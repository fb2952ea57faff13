// Which endpoints a Service port may be sent to (semantics.md, section 2). Pure: Service, slices
// and node in, endpoints out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/state/store.h"

namespace svcmap::proxy {

struct EndpointAddress {
  IpAddress ip;
  uint16_t port = 0;

  friend auto operator<=>(const EndpointAddress&, const EndpointAddress&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const EndpointAddress& endpoint) {
    return H::combine(std::move(state), endpoint.ip, endpoint.port);
  }
};

// Where this node is (S-29).
struct NodePlace {
  std::string name;
  std::string zone;  // Empty: unknown, matches no hint.

  friend bool operator==(const NodePlace&, const NodePlace&) = default;
};

// Which endpoints' hints are followed (S-32).
enum class TopologyMode : uint8_t { kNone, kSameNode, kSameZone };

// All lists ascending, each endpoint once. Who has weight 0 takes no new connections: it is in none
// of them and counts as not ready.
struct ResolvedEndpoints {
  std::vector<EndpointAddress> cluster;  // The cluster set (S-33); empty where not computed (S-30).
  std::vector<EndpointAddress> local;    // The local set (S-34); empty where not computed (S-31).
  // Of the endpoints of the set, in their order; empty: all the same.
  std::vector<uint16_t> cluster_weights;
  std::vector<uint16_t> local_weights;
  bool any = false;                             // HAS: somebody somewhere could answer (S-35).
  std::vector<EndpointAddress> reachable_here;  // Those of both sets on this node (S-36, S-97).
  TopologyMode topology = TopologyMode::kNone;
  // Some endpoint is ready, anywhere or on this node. Where none is, a set holds those that serve
  // while they terminate.
  bool any_ready = false;
  bool any_ready_here = false;
  uint32_t drained = 0;  // That many would be ready or serving, but for their weight of 0.
};

// For one port in one family. Slices are matched by port name and protocol (S-21); an address that
// several of them list counts once, and a non-terminating entry beats a terminating one (S-26); of
// entries with equal conditions the one with the larger weight counts.
// `entry.service` must be set.
ResolvedEndpoints ResolveEndpoints(const ServiceEntry& entry, Family family,
                                   const ServicePort& port, const NodePlace& node);

// Those that serve, whatever else holds of them, drained ones too: whom existing flows may stay
// with (S-238). Without a Service, too. Ascending, each once.
std::vector<EndpointAddress> ServingEndpoints(const ServiceEntry& entry, Family family,
                                              const std::string& port_name, Protocol protocol);

// The addresses of those that are ready, not drained and on this node, over all ports of the
// Service (S-262). Ascending, each once. `entry.service` must be set.
std::vector<IpAddress> ReadyAddressesHere(const ServiceEntry& entry, Family family);

}  // namespace svcmap::proxy
