// Findings about the node: ServiceCIDRs that contain addresses of its networks, and nodePorts that
// no address accepts. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nft/types/node_addresses.h"
#include "proxy/node/nodeport_addresses.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

// Returns true if the prefixes have an address in common.
bool Overlap(const IpPrefix& a, const IpPrefix& b);

// Facts about the nodePorts of all Services, from which the findings about the node are computed.
struct NodePortUse {
  bool any[2] = {};  // Indexed by Index(Family). True if a Service has a nodePort in the family.
  // True if all map elements, including those of nodePorts, exceed the limit.
  bool over_limit = false;

  friend bool operator==(const NodePortUse&, const NodePortUse&) = default;
};

// `accepted`: the node's addresses that accept nodePorts. `max_elements`: see StateLimits.
NodePortUse NodePortUseOf(const Store& store, const std::vector<IpAddress>& accepted,
                          uint64_t max_elements);

struct NodeFindingsInput {
  const Store& store;
  const std::string& node_name;
  const NodeAddresses& addresses;
  const NodePortAddresses& node_port_addresses;
  const std::vector<IpAddress>& accepted;  // The node's addresses that accept nodePorts.
  std::vector<IpPrefix> pod_cidrs;
  uint64_t max_elements;
};

std::vector<Finding> NodeFindings(const NodeFindingsInput& input);

// The addresses that a clusterIP must not have, ascending and without duplicates. Link-local and
// loopback addresses cannot be clusterIPs.
struct ReservedAddresses {
  std::vector<IpAddress> of_node;      // Addresses of interfaces.
  std::vector<IpAddress> of_gateways;  // Gateways of default routes.

  friend bool operator==(const ReservedAddresses&, const ReservedAddresses&) = default;
};

ReservedAddresses ReservedAddressesOf(const NodeAddresses& addresses);

}  // namespace svcmap::proxy
