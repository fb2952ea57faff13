// Where each endpoint of a group lies. Slots 0..N-1 are taken, without holes. Who has more weight
// than others has more slots.
#pragma once

#include <vector>

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

// The slots for `wanted` (ascending, each as often as it has slots) that differ from `before` in
// few places: who stays keeps its slots, a newcomer takes the slot of one that left, and when the
// group shrinks the last ones move into the holes.
std::vector<EndpointAddress> AssignSlots(const std::vector<EndpointAddress>& before,
                                         const std::vector<EndpointAddress>& wanted);

}  // namespace svcmap::proxy
