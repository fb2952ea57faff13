#include "proxy/localhost/nodeports.h"

#include <algorithm>
#include <utility>

namespace svcmap::proxy {
LocalhostNodePorts LocalhostNodePortsOf(const ServiceEntry* entry, const Claims& claims,
                                        const NodePlace& place, const bool (&families)[2]) {
  LocalhostNodePorts node_ports;
  if (entry == nullptr || !entry->service || !entry->service->proxied) return node_ports;
  const Service& service = *entry->service;
  const SlicePorts slice_ports(*entry);
  const bool local = service.external_policy == TrafficPolicy::kLocal;
  for (const Family family : kFamilies) {
    if (!families[Index(family)] || !service.cluster_ip[Index(family)]) continue;
    for (const ServicePort& port : service.ports) {
      if (port.node_port == 0 || port.protocol != Protocol::kTcp) continue;
      const Service* owner = claims.Owner(NodePortClaim(family, port.protocol, port.node_port));
      if (owner == nullptr || owner->key != service.key) continue;
      ResolvedEndpoints resolved = ResolveEndpoints(slice_ports, family, port, place);
      node_ports.push_back(
          {.family = family,
           .port = port.node_port,
           .endpoints = std::move(local ? resolved.local : resolved.cluster),
           .weights = std::move(local ? resolved.local_weights : resolved.cluster_weights),
           .affinity_seconds = service.affinity_seconds});
    }
  }
  return node_ports;
}

void EndpointPicker::Set(LocalhostNodePort node_port) {
  node_port_ = std::move(node_port);
  if (affinity_ && (node_port_.affinity_seconds == 0 || !Has(affinity_->endpoint))) {
    affinity_.reset();
  }
}

std::optional<EndpointAddress> EndpointPicker::Pick(const std::vector<EndpointAddress>& tried,
                                                    uint64_t random, Time now) const {
  if (affinity_ && now < affinity_->expires &&
      std::find(tried.begin(), tried.end(), affinity_->endpoint) == tried.end()) {
    return affinity_->endpoint;
  }
  uint64_t total = 0;
  for (size_t i = 0; i < node_port_.endpoints.size(); ++i) total += WeightOf(i, tried);
  if (total == 0) return std::nullopt;
  uint64_t position = random % total;
  size_t index = 0;
  for (; position >= WeightOf(index, tried); ++index) position -= WeightOf(index, tried);
  return node_port_.endpoints[index];
}

void EndpointPicker::Connected(const EndpointAddress& endpoint, Time now) {
  if (node_port_.affinity_seconds == 0 || !Has(endpoint)) return;
  affinity_ = {endpoint, now + std::chrono::seconds(node_port_.affinity_seconds)};
}

bool EndpointPicker::Has(const EndpointAddress& endpoint) const {
  return std::binary_search(node_port_.endpoints.begin(), node_port_.endpoints.end(), endpoint);
}

uint64_t EndpointPicker::WeightOf(size_t index, const std::vector<EndpointAddress>& tried) const {
  if (std::find(tried.begin(), tried.end(), node_port_.endpoints[index]) != tried.end()) return 0;
  return node_port_.weights.empty() ? 1 : node_port_.weights[index];
}

}  // namespace svcmap::proxy
