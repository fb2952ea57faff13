#include "proxy/localhost/nodeports.h"

namespace svcmap::proxy {
namespace {

LocalhostNodePort Resolve(const SlicePorts& slice_ports, Family family, const ServicePort& port,
                          const NodePlace& place) {
  const Service& service = slice_ports.service();
  ResolvedEndpoints resolved = ResolveEndpoints(slice_ports, family, port, place);
  const bool local = service.external_policy == TrafficPolicy::kLocal;
  return {.family = family,
          .port = port.node_port,
          .endpoints = std::move(local ? resolved.local : resolved.cluster),
          .weights = std::move(local ? resolved.local_weights : resolved.cluster_weights),
          .affinity_seconds = service.affinity_seconds};
}

}  // namespace

LocalhostNodePorts LocalhostNodePortsOf(const ServiceEntry* entry, const Claims& claims,
                                        const NodePlace& place, const bool (&families)[2]) {
  LocalhostNodePorts node_ports;
  if (entry == nullptr || !entry->service || !entry->service->proxied) return node_ports;
  const Service& service = *entry->service;
  const SlicePorts slice_ports(*entry);
  for (const Family family : kFamilies) {
    if (!families[Index(family)] || !service.cluster_ip[Index(family)]) continue;
    for (const ServicePort& port : service.ports) {
      if (port.node_port == 0 || port.protocol != Protocol::kTcp) continue;
      const Service* owner = claims.Owner(NodePortClaim(family, port.protocol, port.node_port));
      if (owner == nullptr || owner->key != service.key) continue;
      node_ports.push_back(Resolve(slice_ports, family, port, place));
    }
  }
  return node_ports;
}

}  // namespace svcmap::proxy
