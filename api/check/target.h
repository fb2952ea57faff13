// Addresses and ports of Services that `svcmapctl check` connects to. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nft/types/ip_address.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

struct CheckTarget {
  std::string service;  // "shop/web:http", or "shop/web" if the port has no name.
  std::string role;     // "clusterIP", "externalIP", "load balancer IP", "nodePort" or "endpoint"
  IpAddress address;
  uint16_t port = 0;  // The first port of a port range.
  proxy::Protocol protocol = proxy::Protocol::kTcp;
  bool is_range = false;  // True if endpoints may listen on any port of the Service's port range.

  std::string ToString() const;  // "10.96.0.10:80/TCP", "[fd00::1]:53/UDP"
};

// Appends one target for each address and port of `service`. nodePorts are combined with
// `node_addresses`. Ignores invalid addresses, ports and protocols, because the agent reports them.
void AddTargets(const v1::Service& service, const std::vector<IpAddress>& node_addresses,
                std::vector<CheckTarget>& targets);

// Asks for the explanation of all kinds of sources.
v1::ExplainRequest ExplainRequestFor(const CheckTarget& target);

// Returns the valid addresses of type InternalIP.
std::vector<IpAddress> InternalAddresses(const v1::Node& node);

// Keeps `count` random targets in their order. `seed` determines the selection.
void SampleTargets(size_t count, uint64_t seed, std::vector<CheckTarget>& targets);

}  // namespace svcmap::api
