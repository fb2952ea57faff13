// The TCP destinations and endpoints of one Service. Pure functions.
#pragma once

#include <vector>

#include "nft/conntrack/flow_table.h"
#include "proxy/desired/rows.h"
#include "proxy/desired/service.h"
#include "proxy/resolve/endpoints.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct TcpEndpoints {
  // Service addresses with the Service ports, and accepted node addresses with the nodePorts.
  // Excludes addresses that belong to another Service. Also excludes destinations that take
  // precedence over a nodePort or a port range of another Service, because connections to such a
  // destination may belong to the other Service. Ascending, without duplicates.
  std::vector<nft::FlowEnd> destinations;
  // All endpoints in the Service's EndpointSlices, whatever their conditions, with their TCP ports.
  // Ascending, without duplicates.
  std::vector<EndpointAddress> endpoints;

  friend bool operator==(const TcpEndpoints&, const TcpEndpoints&) = default;
};

// `entry` is null if the Service is deleted. `rows` contains the Service's addresses and is null if
// the Service is not programmed. The result is empty if the Service has no TCP destination, or if
// its TCP connections are not reset.
TcpEndpoints MakeTcpEndpoints(const ServiceEntry* entry, const ServiceRows* rows,
                              const Claims& claims, const NodeFacts& node);

}  // namespace svcmap::proxy
