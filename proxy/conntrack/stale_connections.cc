#include "proxy/conntrack/stale_connections.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"

namespace svcmap::proxy {
namespace {

Protocol ProtocolOf(const nft::Flow& flow) { return static_cast<Protocol>(flow.protocol); }

bool IsTranslated(const nft::Flow& flow) { return flow.reply.source != flow.original.destination; }

struct Owner {
  const Service* service = nullptr;
  bool range = false;  // The destination is in a port range of the Service.
};

// Returns the Services that claim the destination of the flow, in the order of their precedence.
absl::InlinedVector<Owner, 3> OwnersOf(const nft::Flow& flow, const Claims& claims,
                                       const NodeFacts& node) {
  const IpAddress& address = flow.original.destination.address;
  const uint16_t port = flow.original.destination.port;
  const Protocol protocol = ProtocolOf(flow);
  absl::InlinedVector<Owner, 3> owners;
  const auto add = [&](const Service* service, bool range) {
    if (service != nullptr) owners.push_back({service, range});
  };
  add(claims.Owner({address, protocol, port}), false);
  if (absl::c_linear_search(node.node_port_addresses, address)) {
    add(claims.Owner(NodePortClaim(address.family(), protocol, port)), false);
  }
  const Service* ranges =
      node.port_ranges ? claims.Owner(PortRangesClaim(address, protocol)) : nullptr;
  const bool contains =
      ranges != nullptr && absl::c_any_of(ranges->ports, [&](const ServicePort& range) {
        return range.is_range() && range.protocol == protocol && range.port <= port &&
               port <= range.end_port;
      });
  if (contains) add(ranges, true);
  return owners;
}

// Returns true if TCP connections with replies can be stale.
bool AreReset(const absl::InlinedVector<Owner, 3>& owners, const NodeFacts& node) {
  const Service& service = *owners.front().service;
  return node.tcp_resets != TcpResets::kOff && !owners.front().range &&
         service.reset_stale_tcp.value_or(node.reset_stale_tcp) &&
         absl::c_all_of(owners, [&](const Owner& other) { return other.service == &service; });
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

std::vector<std::optional<ServiceHash>> FindStaleConnections(std::span<const nft::Flow> flows,
                                                             const Store& store,
                                                             const NodeFacts& node) {
  std::vector<std::optional<ServiceHash>> stale(flows.size());
  absl::flat_hash_map<const Service*, ServiceFlows> services;
  for (size_t i = 0; i < flows.size(); ++i) {
    const nft::Flow& flow = flows[i];
    const auto owners = OwnersOf(flow, store.claims(), node);
    if (owners.empty()) {
      const bool deleted = flow.unreplied && IsTranslated(flow) &&
                           IsInServiceCidr(flow.original.destination.address, store);
      if (deleted) stale[i] = kNoService;
      continue;
    }
    if (!IsTranslated(flow) && (flow.original.zone != 0 || !flow.unreplied)) continue;
    if (!flow.unreplied && !AreReset(owners, node)) continue;
    const auto [service, range] = owners.front();
    stale[i] = HashOfService(service->key);
    services[service][flow.reply.source.address].push_back({i, range});
  }
  for (const auto& [service, service_flows] : services) {
    for (const auto& slice : store.Find(service->key)->slices) {
      KeepFlowsToEndpoints(*slice, service_flows, flows, stale);
    }
  }
  return stale;
}

}  // namespace svcmap::proxy
