#include "proxy/conntrack/tcp_endpoints.h"

#include <algorithm>
#include <string>

#include "absl/algorithm/container.h"

namespace svcmap::proxy {
namespace {

template <typename T>
void SortWithoutDuplicates(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

// Returns true if the destination hides a nodePort or a port of a range of another Service.
bool HidesAnother(const std::string& key, const ReachedAt& at, const Claims& claims,
                  const NodeFacts& node) {
  if (absl::c_linear_search(node.node_port_addresses, at.address)) {
    const Service* owner =
        claims.Owner(NodePortClaim(at.address.family(), Protocol::kTcp, at.port));
    if (owner != nullptr && owner->key != key) return true;
  }
  if (!node.port_ranges) return false;
  const Service* owner = claims.Owner(PortRangesClaim(at.address, Protocol::kTcp));
  return owner != nullptr && owner->key != key &&
         absl::c_any_of(owner->ports, [&](const ServicePort& port) {
           return port.is_range() && port.protocol == Protocol::kTcp && port.port <= at.port &&
                  at.port <= port.end_port;
         });
}

}  // namespace

TcpEndpoints MakeTcpEndpoints(const ServiceEntry* entry, const ServiceRows* rows,
                              const Claims& claims, const NodeFacts& node) {
  TcpEndpoints tcp;
  if (entry == nullptr || !entry->service || rows == nullptr || rows->tcp_resets == TcpResets::kOff)
    return tcp;
  for (const PortRows& port : rows->ports) {
    if (port.protocol != Protocol::kTcp || port.is_range()) continue;
    for (const ReachedAt& at : port.addresses) {
      if (HidesAnother(entry->service->key, at, claims, node)) continue;
      tcp.destinations.push_back({at.address, at.port});
    }
  }
  if (tcp.destinations.empty()) return tcp;
  SortWithoutDuplicates(tcp.destinations);
  for (const auto& slice : entry->slices) {
    for (const EndpointPort& port : slice->ports) {
      if (port.protocol != Protocol::kTcp) continue;
      for (const Endpoint& endpoint : slice->endpoints) {
        tcp.endpoints.push_back({endpoint.address, port.port});
      }
    }
  }
  SortWithoutDuplicates(tcp.endpoints);
  return tcp;
}

}  // namespace svcmap::proxy
