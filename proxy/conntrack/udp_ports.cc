#include "proxy/conntrack/udp_ports.h"

#include <algorithm>
#include <utility>

#include "absl/container/btree_map.h"

namespace svcmap::proxy {
namespace {

using Key = std::pair<Family, std::string>;
using Destinations = absl::btree_map<Key, std::vector<nft::FlowEnd>>;

const std::string* PortNameOf(const Service& service, const ClaimKey& claim) {
  for (const ServicePort& port : service.ports) {
    const uint16_t number = claim.node_port ? port.node_port : port.port;
    if (port.protocol == Protocol::kUdp && number == claim.port) return &port.name;
  }
  return nullptr;
}

// An address that a Service claims with that port for itself beats the nodePort (S-94).
void AddDestinations(const Service& service, const Claims& claims,
                     const std::vector<IpAddress>& node_port_addresses, Destinations& all) {
  const auto is_udp = [](const ServicePort& port) { return port.protocol == Protocol::kUdp; };
  if (std::none_of(service.ports.begin(), service.ports.end(), is_udp)) return;
  for (const ClaimKey& claim : ClaimsOf(service)) {
    const std::string* name =
        claim.protocol == Protocol::kUdp ? PortNameOf(service, claim) : nullptr;
    const Service* owner = claims.Owner(claim);
    if (name == nullptr || owner == nullptr || owner->key != service.key) continue;
    const Family family = claim.address.family();
    std::vector<nft::FlowEnd>& destinations = all[{family, *name}];
    if (!claim.node_port) {
      destinations.push_back({claim.address, claim.port});
      continue;
    }
    for (const IpAddress& address : node_port_addresses) {
      const ClaimKey direct{address, Protocol::kUdp, claim.port, false};
      if (address.family() != family || claims.Owner(direct) != nullptr) continue;
      destinations.push_back({address, claim.port});
    }
  }
}

}  // namespace

UdpPorts MakeUdpPorts(const ServiceEntry* entry, const Claims& claims,
                      const std::vector<IpAddress>& node_port_addresses) {
  UdpPorts ports;
  if (entry == nullptr) return ports;
  Destinations all;
  if (entry->service) AddDestinations(*entry->service, claims, node_port_addresses, all);
  for (const auto& slice : entry->slices) {
    for (const EndpointPort& port : slice->ports) {
      if (port.protocol == Protocol::kUdp) all[{slice->family, port.name}];
    }
  }
  for (auto& [key, destinations] : all) {
    const auto& [family, name] = key;
    std::sort(destinations.begin(), destinations.end());
    destinations.erase(std::unique(destinations.begin(), destinations.end()), destinations.end());
    ports.push_back({.family = family,
                     .name = name,
                     .destinations = std::move(destinations),
                     .endpoints = ServingEndpoints(*entry, family, name, Protocol::kUdp)});
  }
  return ports;
}

}  // namespace svcmap::proxy
