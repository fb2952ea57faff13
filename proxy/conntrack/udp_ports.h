// The UDP destinations and endpoints of one Service. Pure functions.
#pragma once

#include <compare>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "nft/conntrack/flow_table.h"
#include "proxy/desired/rows.h"
#include "proxy/resolve/endpoints.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

// An address with a port or a port range.
struct FlowDestination {
  // Implicit, because most destinations have a single port.
  FlowDestination(const nft::FlowEnd& end, uint16_t last_port = 0)  // NOLINT
      : first(end), last(last_port) {}

  nft::FlowEnd first;
  uint16_t last;  // Last port of a range, or 0 for a single port.

  bool is_range() const { return last != 0; }
  friend auto operator<=>(const FlowDestination&, const FlowDestination&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const FlowDestination& destination) {
    return H::combine(std::move(state), destination.first, destination.last);
  }
};

// One UDP port in one family.
struct UdpPort {
  // Service addresses with the Service port or port range, and accepted node addresses with the
  // nodePort. Excludes addresses that belong to another Service. Ascending, without duplicates.
  std::vector<FlowDestination> destinations;
  // All serving endpoints on any node, ready or not (S-238). Existing flows to serving endpoints
  // are kept. Ascending.
  std::vector<EndpointAddress> endpoints;

  friend bool operator==(const UdpPort&, const UdpPort&) = default;
};

// UDP ports of one Service by family and name. The name may be empty. A port without destinations
// exists only in EndpointSlices, for example because the Service or its port was deleted first.
using UdpPorts = absl::btree_map<std::pair<Family, std::string>, UdpPort>;

// `entry` is null if the Service is deleted. `rows` contains the Service's addresses and is null if
// the Service is not programmed. The call is cheap for Services without UDP ports.
UdpPorts MakeUdpPorts(const ServiceEntry* entry, const ServiceRows* rows);

}  // namespace svcmap::proxy
