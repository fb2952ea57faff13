// Selects the node address that answers echo requests to Service addresses. Pure function.
#pragma once

#include <optional>
#include <vector>

#include "nft/types/ip_address.h"
#include "proxy/state/objects.h"

namespace svcmap::proxy {

// Returns the node's own address if `interfaces` contains this address, otherwise the lowest
// address in `interfaces` that is not a loopback or link-local address. The kernel delivers packets
// to both addresses locally, on any interface. Returns nullopt if there is no such address. `node`
// is null if this node is unknown.
std::optional<IpAddress> PingTarget(const Node* node, const std::vector<IpAddress>& interfaces,
                                    Family family);

}  // namespace svcmap::proxy
