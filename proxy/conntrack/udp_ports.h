// What one Service says about its UDP flows: where they are sent to and who may answer. Pure.
#pragma once

#include <string>
#include <vector>

#include "nft/conntrack/flow_table.h"
#include "proxy/desired/rows.h"
#include "proxy/resolve/endpoints.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

// One UDP port in one family.
struct UdpPort {
  Family family = Family::kIpv4;
  std::string name;  // Of the port; may be empty.
  // Where it is reached: addresses of its Service with the port, accepted addresses of this node
  // with the nodePort; none that another Service owns. Ascending, each once.
  std::vector<nft::FlowEnd> destinations;
  // All that serve, of any node, ready or not (S-238): flows to them are left alone. Ascending.
  std::vector<EndpointAddress> endpoints;

  friend bool operator==(const UdpPort&, const UdpPort&) = default;
};

// Of one Service, by family and name. A port without destinations is one that only slices speak of:
// the Service, or its port, may be gone before they are.
using UdpPorts = std::vector<UdpPort>;

// `entry` may be null (the Service is gone), and so may `rows` (nothing of it is programmed), which
// say where it is reached. Cheap where nothing is UDP.
UdpPorts MakeUdpPorts(const ServiceEntry* entry, const ServiceRows* rows);

}  // namespace svcmap::proxy
