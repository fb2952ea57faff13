#include "proxy/conntrack/stale_handshakes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace svcmap::proxy {
namespace {

Protocol ProtocolOf(const nft::Flow& flow) { return static_cast<Protocol>(flow.protocol); }

bool IsTranslated(const nft::Flow& flow) { return flow.reply.source != flow.original.destination; }

struct Owner {
  const Service* service = nullptr;
  bool range = false;  // The destination is in a port range of the Service.
};

Owner OwnerOf(const nft::Flow& flow, const Claims& claims, const NodeFacts& node) {
  const IpAddress& address = flow.original.destination.address;
  const uint16_t port = flow.original.destination.port;
  const Protocol protocol = ProtocolOf(flow);
  if (const Service* service = claims.Owner({address, protocol, port})) return {service};
  if (absl::c_linear_search(node.node_port_addresses, address)) {
    const ClaimKey claim = NodePortClaim(address.family(), protocol, port);
    if (const Service* service = claims.Owner(claim)) return {service};
  }
  if (!node.port_ranges) return {};
  const Service* service = claims.Owner(PortRangesClaim(address, protocol));
  if (service == nullptr) return {};
  const bool contains = absl::c_any_of(service->ports, [&](const ServicePort& range) {
    return range.is_range() && range.protocol == protocol && range.port <= port &&
           port <= range.end_port;
  });
  return contains ? Owner{service, true} : Owner{};
}

bool IsInServiceCidr(const IpAddress& address, const Store& store) {
  return absl::c_any_of(store.service_cidrs(), [&](const auto& entry) {
    return absl::c_any_of(entry.second->cidrs,
                          [&](const IpPrefix& cidr) { return cidr.Contains(address); });
  });
}

// The flows of one Service, by the address that would reply.
struct ServiceFlow {
  size_t index;  // In the list of all flows.
  bool range;
};
using ServiceFlows = absl::flat_hash_map<IpAddress, std::vector<ServiceFlow>>;

// Visits each endpoint once, because a Service can have many more endpoints than flows.
void KeepFlowsToEndpoints(const EndpointSlice& slice, const ServiceFlows& service_flows,
                          std::span<const nft::Flow> flows,
                          std::vector<std::optional<ServiceHash>>& stale) {
  absl::flat_hash_set<std::pair<Protocol, uint16_t>> ports;
  for (const Endpoint& endpoint : slice.endpoints) {
    const auto found = service_flows.find(endpoint.address);
    if (found == service_flows.end()) continue;
    if (ports.empty()) {
      for (const EndpointPort& port : slice.ports) {
        ports.emplace(port.protocol, port.port);
        ports.emplace(port.protocol, uint16_t{0});  // Any port, for port ranges.
      }
    }
    for (const auto& [index, range] : found->second) {
      const nft::Flow& flow = flows[index];
      const uint16_t port = flow.reply.source.port;
      if (range && port != flow.original.destination.port) continue;
      if (ports.contains({ProtocolOf(flow), range ? uint16_t{0} : port})) stale[index].reset();
    }
  }
}

}  // namespace

std::vector<std::optional<ServiceHash>> FindStaleHandshakes(std::span<const nft::Flow> flows,
                                                            const Store& store,
                                                            const NodeFacts& node) {
  std::vector<std::optional<ServiceHash>> stale(flows.size());
  absl::flat_hash_map<const Service*, ServiceFlows> services;
  for (size_t i = 0; i < flows.size(); ++i) {
    const nft::Flow& flow = flows[i];
    const Owner owner = OwnerOf(flow, store.claims(), node);
    if (owner.service == nullptr) {
      const bool deleted =
          IsTranslated(flow) && IsInServiceCidr(flow.original.destination.address, store);
      if (deleted) stale[i] = kNoService;
      continue;
    }
    if (!IsTranslated(flow) && flow.original.zone != 0) continue;
    stale[i] = HashOfService(owner.service->key);
    services[owner.service][flow.reply.source.address].push_back({i, owner.range});
  }
  for (const auto& [service, service_flows] : services) {
    for (const auto& slice : store.Find(service->key)->slices) {
      KeepFlowsToEndpoints(*slice, service_flows, flows, stale);
    }
  }
  return stale;
}

}  // namespace svcmap::proxy
