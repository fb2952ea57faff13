// Assigns the endpoints of a group to slots 0 to N-1 without gaps. An endpoint with a larger weight
// gets more slots.
#pragma once

#include <vector>

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

// Returns the slots for `wanted`, with few differences from `before`. `wanted` is ascending and
// contains each endpoint once per slot. Remaining endpoints keep their slots, and new endpoints
// take the slots of removed endpoints. If the group shrinks, the endpoints in the last slots move
// to the free slots.
std::vector<EndpointAddress> AssignSlots(const std::vector<EndpointAddress>& before,
                                         const std::vector<EndpointAddress>& wanted);

}  // namespace svcmap::proxy
