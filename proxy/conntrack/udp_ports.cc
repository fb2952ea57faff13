#include "proxy/conntrack/udp_ports.h"

#include <algorithm>

namespace svcmap::proxy {

UdpPorts MakeUdpPorts(const ServiceEntry* entry, const ServiceRows* rows) {
  UdpPorts ports;
  if (entry == nullptr) return ports;
  static const ServiceRows kNone;
  for (const PortRows& port : (rows != nullptr ? *rows : kNone).ports) {
    if (port.protocol != Protocol::kUdp || port.addresses.empty()) continue;
    std::vector<FlowDestination>& destinations = ports[{port.family, port.name}].destinations;
    for (const ReachedAt& at : port.addresses) {
      destinations.emplace_back(nft::FlowEnd{at.address, at.port}, port.end_port);
    }
  }
  for (const auto& slice : entry->slices) {
    for (const EndpointPort& port : slice->ports) {
      if (port.protocol == Protocol::kUdp) ports[{slice->family, port.name}];
    }
  }
  if (ports.empty()) return ports;
  const SlicePorts slice_ports(*entry);
  for (auto& [id, port] : ports) {
    std::sort(port.destinations.begin(), port.destinations.end());
    port.destinations.erase(std::unique(port.destinations.begin(), port.destinations.end()),
                            port.destinations.end());
    port.endpoints = ServingEndpoints(slice_ports, id.first, id.second, Protocol::kUdp);
  }
  return ports;
}

}  // namespace svcmap::proxy
