// Looks up a destination in the desired state, independently of the source. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proxy/explain/explain.h"

namespace svcmap::proxy {

enum class Role : uint8_t { kClusterIp, kExternalIp, kLoadBalancerIp, kNodePort };

struct Destination {
  IpAddress address;
  Protocol protocol = Protocol::kTcp;
  uint16_t number = 0;  // Destination port of the packet.
  bool local = false;   // True if the address belongs to this node.

  // The Service port for this destination.
  const ServiceEntry* entry = nullptr;  // Null if no Service port matches.
  const ServicePort* port = nullptr;
  Role role = Role::kClusterIp;
  bool localhost = false;  // True if svcmapd forwards the nodePort on a loopback address.
  ResolvedEndpoints resolved;
  // States that no EndpointSlice of the family belongs to the Service. Empty otherwise.
  std::string without_slices;

  // The port range that would match if svcmapd had the flag --port-ranges, or empty.
  std::string unused_range;

  std::string cluster_ip_of;               // Service with this clusterIP, or empty.
  std::string listed_by;                   // Service with this external or load balancer IP.
  std::optional<IpAddress> chained;        // Endpoint whose address is itself a clusterIP.
  const IpPrefix* service_cidr = nullptr;  // ServiceCIDR that contains the address.

  bool known() const { return entry != nullptr; }
  const Service& service() const { return *entry->service; }
  Family family() const { return address.family(); }
  std::string Name() const { return service().key + (port->name.empty() ? "" : ":" + port->name); }
};

Destination FindDestination(const ExplainContext& context, const Question& question);

}  // namespace svcmap::proxy
