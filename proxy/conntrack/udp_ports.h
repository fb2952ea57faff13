// The UDP destinations and endpoints of one Service. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "proxy/conntrack/stale_flows.h"
#include "proxy/desired/rows.h"
#include "proxy/resolve/endpoints.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

// One UDP port in one family.
struct UdpPort {
  Family family = Family::kIpv4;
  std::string name;  // Name of the port. May be empty.
  // Service addresses with the Service port or port range, and accepted node addresses with the
  // nodePort. Excludes addresses that belong to another Service. Ascending, without duplicates.
  std::vector<FlowDestination> destinations;
  // All serving endpoints on any node, ready or not (S-238). Existing flows to serving endpoints
  // are kept. Ascending.
  std::vector<EndpointAddress> endpoints;

  friend bool operator==(const UdpPort&, const UdpPort&) = default;
};

// UDP ports of one Service, sorted by family and name. A port without destinations exists only in
// EndpointSlices, for example because the Service or its port was deleted first.
using UdpPorts = std::vector<UdpPort>;

// `entry` is null if the Service is deleted. `rows` contains the Service's addresses and is null if
// the Service is not programmed. The call is cheap for Services without UDP ports.
UdpPorts MakeUdpPorts(const ServiceEntry* entry, const ServiceRows* rows);

}  // namespace svcmap::proxy
