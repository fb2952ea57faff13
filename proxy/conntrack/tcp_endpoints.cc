#include "proxy/conntrack/tcp_endpoints.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "absl/algorithm/container.h"

namespace svcmap::proxy {
namespace {

template <typename T>
void SortWithoutDuplicates(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

// Finds destinations of the Service `key` that hide a nodePort or a port of a range of another
// Service. A Service can have tens of thousands of ports and ranges, so the ranges are sorted.
class HiddenServices {
 public:
  HiddenServices(const std::string& key, const Claims& claims, const NodeFacts& node)
      : key_(key), claims_(claims), node_(node) {}

  bool IsBehind(const ReachedAt& at) {
    const bool on_node = absl::c_linear_search(node_.node_port_addresses, at.address);
    if (on_node &&
        Another(NodePortClaim(at.address.family(), Protocol::kTcp, at.port)) != nullptr) {
      return true;
    }
    if (!node_.port_ranges) return false;
    const Service* service = Another(PortRangesClaim(at.address, Protocol::kTcp));
    if (service == nullptr) return false;
    const Ranges& ranges = RangesOf(*service);
    const auto next = ranges.upper_bound(at.port);
    return next != ranges.begin() && at.port <= std::prev(next)->second;
  }

 private:
  using Ranges = std::map<uint16_t, uint16_t>;  // First port to last port. Ranges do not overlap.

  const Service* Another(const ClaimKey& claim) const {
    const Service* owner = claims_.Owner(claim);
    return owner == nullptr || owner->key == key_ ? nullptr : owner;
  }
  const Ranges& RangesOf(const Service& service) {
    const auto [found, added] = ranges_.try_emplace(&service);
    if (!added) return found->second;
    for (const ServicePort& port : service.ports) {
      if (port.is_range() && port.protocol == Protocol::kTcp) {
        found->second.emplace(port.port, port.end_port);
      }
    }
    return found->second;
  }

  const std::string& key_;
  const Claims& claims_;
  const NodeFacts& node_;
  std::map<const Service*, Ranges> ranges_;
};

}  // namespace

TcpEndpoints MakeTcpEndpoints(const ServiceEntry* entry, const ServiceRows* rows,
                              const Claims& claims, const NodeFacts& node) {
  TcpEndpoints tcp;
  if (entry == nullptr || !entry->service || rows == nullptr || rows->tcp_resets == TcpResets::kOff)
    return tcp;
  HiddenServices hidden(entry->service->key, claims, node);
  for (const PortRows& port : rows->ports) {
    if (port.protocol != Protocol::kTcp || port.is_range()) continue;
    for (const ReachedAt& at : port.addresses) {
      if (hidden.IsBehind(at)) continue;
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
