#include "proxy/conntrack/tcp_endpoints.h"

#include <algorithm>

namespace svcmap::proxy {
namespace {

template <typename T>
void SortWithoutDuplicates(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

TcpEndpoints MakeTcpEndpoints(const ServiceEntry* entry, const ServiceRows* rows) {
  TcpEndpoints tcp;
  if (entry == nullptr || rows == nullptr || rows->tcp_resets == TcpResets::kOff) return tcp;
  for (const PortRows& port : rows->ports) {
    if (port.protocol != Protocol::kTcp || port.is_range()) continue;
    for (const ReachedAt& at : port.addresses) tcp.destinations.push_back({at.address, at.port});
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
