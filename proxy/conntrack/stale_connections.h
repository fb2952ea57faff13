// Decides which TCP and SCTP flows are stale, from the stored objects. A pure function.
//
// A handshake is a flow whose destination has not replied yet (nft::Flow::unreplied). While the
// conntrack entry of a handshake exists, the client's retries use the translation of this entry. So
// the retries do not reach the present endpoints of the Service, and can reach a pod of another
// Service that now has the endpoint's address.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "nft/conntrack/flow_table.h"
#include "proxy/conntrack/endpoint_events.h"
#include "proxy/desired/service.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

// Returns a value for each flow that is stale: the Service that the destination belongs to, or
// kNoService if the Service was deleted. Returns nullopt for the other flows. A handshake is stale
// in three cases:
// - The destination belongs to a Service, and the flow is translated to an address and port that is
//   in no EndpointSlice of the Service. Conditions of endpoints do not matter.
// - The destination belongs to a Service, and the flow is not translated, because its first packet
//   passed before the Service or the tables existed. Such flows in zones other than 0 are not
//   stale, because a virtual switch may track packets before translation.
// - The destination is an address of a ServiceCIDR that belongs to no Service, and the flow is
//   translated, so its Service was deleted.
// A TCP connection with replies is stale only in the first case, and only if the connections of the
// Service are reset. It is not stale if the destination takes precedence over a nodePort or a port
// range of another Service, because the connection may belong to the other Service.
// The cost is proportional to the number of flows and of the endpoints of their Services.
std::vector<std::optional<ServiceHash>> FindStaleConnections(std::span<const nft::Flow> flows,
                                                             const Store& store,
                                                             const NodeFacts& node);

}  // namespace svcmap::proxy
