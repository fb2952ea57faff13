#include "proxy/conntrack/udp_ports.h"

#include <algorithm>
#include <utility>

#include "absl/container/btree_map.h"

namespace svcmap::proxy {
UdpPorts MakeUdpPorts(const ServiceEntry* entry, const ServiceRows* rows) {
  UdpPorts ports;
  if (entry == nullptr) return ports;
  absl::btree_map<std::pair<Family, std::string>, std::vector<FlowDestination>> all;
  static const ServiceRows kNone;
  for (const PortRows& port : (rows != nullptr ? *rows : kNone).ports) {
    if (port.protocol != Protocol::kUdp || port.addresses.empty()) continue;
    std::vector<FlowDestination>& destinations = all[{port.family, port.name}];
    for (const ReachedAt& at : port.addresses) {
      destinations.emplace_back(nft::FlowEnd{at.address, at.port}, port.end_port);
    }
  }
  for (const auto& slice : entry->slices) {
    for (const EndpointPort& port : slice->ports) {
      if (port.protocol == Protocol::kUdp) all[{slice->family, port.name}];
    }
  }
  if (all.empty()) return ports;
  const SlicePorts slice_ports(*entry);
  for (auto& [key, destinations] : all) {
    const auto& [family, name] = key;
    std::sort(destinations.begin(), destinations.end());
    destinations.erase(std::unique(destinations.begin(), destinations.end()), destinations.end());
    ports.push_back({.family = family,
                     .name = name,
                     .destinations = std::move(destinations),
                     .endpoints = ServingEndpoints(slice_ports, family, name, Protocol::kUdp)});
  }
  return ports;
}

}  // namespace svcmap::proxy
