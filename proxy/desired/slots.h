// Where each endpoint of a group lies. Slots 0..N-1 are taken, without holes.
#pragma once

#include <vector>

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

// The slots for `wanted` (ascending, each once) that differ from `before` in as few places as can
// be: who stays keeps its slot, a newcomer takes the slot of one that left, and when the group
// shrinks the last ones move into the holes.
std::vector<EndpointAddress> AssignSlots(const std::vector<EndpointAddress>& before,
                                         const std::vector<EndpointAddress>& wanted);

}  // namespace svcmap::proxy
