// Selects the eligible endpoints of a Service port. Pure functions of a Service, its EndpointSlices
// and the node.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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

// Name and zone of this node (S-29).
struct NodePlace {
  std::string name;
  std::string zone;  // Empty if unknown. An empty zone matches no hint.

  friend bool operator==(const NodePlace&, const NodePlace&) = default;
};

// Kind of topology hints in use (S-32).
enum class TopologyMode : uint8_t { kNone, kSameNode, kSameZone };

// All lists are ascending and contain each endpoint once. An endpoint with weight 0 gets no new
// connections. No list contains such an endpoint, and an endpoint with weight 0 counts as not
// ready.
struct ResolvedEndpoints {
  std::vector<EndpointAddress> cluster;  // Cluster endpoint set (S-33). Empty if not needed (S-30).
  std::vector<EndpointAddress> local;    // Local endpoint set (S-34). Empty if not needed (S-31).
  // Weights of the endpoints in `cluster` and `local`, in the same order. Empty if all weights are
  // equal.
  std::vector<uint16_t> cluster_weights;
  std::vector<uint16_t> local_weights;
  bool any = false;  // True if an endpoint exists on any node (S-35).
  // Endpoints of `cluster` and `local` that are on this node (S-36, S-97).
  std::vector<EndpointAddress> reachable_here;
  TopologyMode topology = TopologyMode::kNone;
  // True if at least one endpoint is ready: `any_ready` on any node, `any_ready_here` on this node.
  // If no endpoint is ready, the endpoint set contains serving terminating endpoints.
  bool any_ready = false;
  bool any_ready_here = false;
  uint32_t drained = 0;  // Number of ready or serving endpoints with weight 0.
};

// The ports of a Service's EndpointSlices, found by family, name and protocol in logarithmic time.
// A Service and its slices can have 65,535 ports each. SlicePorts keeps references to the slices of
// `entry`.
class SlicePorts {
 public:
  // Implicit, so that callers can resolve a single port without creating a SlicePorts.
  SlicePorts(const ServiceEntry& entry);  // NOLINT(google-explicit-constructor)

  struct Port {
    const EndpointSlice* slice;
    const EndpointPort* port;
  };
  std::span<const Port> Find(Family family, std::string_view name, Protocol protocol) const;
  const Service& service() const { return *service_; }  // The entry must have a Service.

 private:
  const Service* service_;
  std::vector<Port> ports_;  // All ports, ascending by family, name and protocol.
};

// Resolves one port in one family. EndpointSlices are matched by port name and protocol (S-21). An
// address in several EndpointSlices counts once. A non-terminating entry takes precedence over a
// terminating entry (S-26). Among entries with equal conditions, the entry with the largest weight
// takes precedence. All endpoints of a port range have port 0. An address in several EndpointSlices
// therefore counts as one endpoint, even if the slices have different port numbers. The Service of
// `slice_ports` must not be null.
ResolvedEndpoints ResolveEndpoints(const SlicePorts& slice_ports, Family family,
                                   const ServicePort& port, const NodePlace& node);

// Returns all serving endpoints, including drained endpoints, because existing flows to such
// endpoints may continue (S-238). The Service does not need to exist. The result is ascending,
// without duplicates.
std::vector<EndpointAddress> ServingEndpoints(const SlicePorts& slice_ports, Family family,
                                              const std::string& port_name, Protocol protocol);

// Returns the addresses of all endpoints on this node that are ready and not drained, for all ports
// of the Service (S-262). The result is ascending, without duplicates. `entry.service` must not be
// null.
std::vector<IpAddress> ReadyAddressesHere(const ServiceEntry& entry, Family family);

}  // namespace svcmap::proxy
