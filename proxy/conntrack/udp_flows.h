// The UDP destinations of all Services, and the rule that decides which UDP flows are stale.
//
// A flow is stale if it was sent to a Service but none of the Service's endpoints replies (S-240).
// A flow is also stale if its source is the Service's own address. A flow to a former destination,
// which no Service uses any more, is kept while the flow's endpoint is serving, and becomes stale
// when the endpoint stops serving. UdpFlows forgets a former destination that has no flows left.
// The cost per flow does not depend on the number of Services.
//
// Not thread-safe.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/container/node_hash_map.h"
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

class UdpFlows {
 public:
  // Sets the current ports of the Service. A scan becomes due if the update can make a flow stale.
  // An update that only adds endpoints, or changes nothing, cannot make a flow stale.
  void Update(const std::string& service, UdpPorts ports);
  // Makes a scan due, for example because packets may have passed without translation.
  void MakeDue() { due_ = true; }
  bool due() const { return due_ && !services_.empty(); }

  // Starts a scan of all flows. IsStale must be called for each flow, and then Finish. Updates can
  // take place during the scan. If the scan fails, call MakeDue instead of Finish.
  void Start();
  // In a port range, an endpoint replies from the port of the destination. A flow to a single
  // port that is a current destination does not belong to a range. If several Services use the
  // destination, a flow to an endpoint of any of these Services is kept.
  bool IsStale(const nft::Flow& flow);
  void Finish();

  // Number of Services with UDP ports, or with remaining flows of a removed UDP port.
  size_t services() const { return services_.size(); }
  // Returns true if a current or former destination has an address of the family.
  bool HasFamily(Family family) const { return destinations_[Index(family)] > 0; }

 private:
  struct Service;
  // A Service port with a current or former destination.
  struct Port {
    Service* service = nullptr;
    UdpPort now;
    size_t former = 0;  // Number of former destinations.
  };
  struct Service {
    std::string key;
    std::map<UdpPorts::key_type, Port> ports;  // Does not move its elements.
  };
  // A current or former destination of one port.
  struct Place {
    FlowDestination destination;
    Port* port;
    bool current = true;
    // For former destinations: the current scan has found a flow that is kept, or the destination
    // became a former destination during the scan.
    bool kept = true;
  };
  using Places = absl::InlinedVector<Place, 1>;

  void Add(const FlowDestination& destination, Port& port);
  void MakeFormer(const FlowDestination& destination, Port& port);
  // Removes the places for which `unused` returns true from the places of the destination. `unused`
  // is called only for former places.
  template <typename Unused>
  void RemoveFormer(const FlowDestination& destination, const Unused& unused);
  void DropUnused(Service& service);
  // Returns the current places whose destination contains the address and port `end`. If there is
  // no such place, returns the former places whose destination contains `end`.
  absl::InlinedVector<Place*, 2> PlacesOf(const nft::FlowEnd& end);

  absl::node_hash_map<std::string, Service> services_;
  // Places by address and port. The port is 0 for all port ranges of the address.
  absl::flat_hash_map<nft::FlowEnd, Places> places_;
  absl::flat_hash_set<FlowDestination> former_;  // Destinations with a former place.
  size_t destinations_[2] = {};                  // Number of places, by Index(Family).
  bool due_ = false;
};

}  // namespace svcmap::proxy
