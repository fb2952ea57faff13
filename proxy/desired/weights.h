// Number of slots per endpoint. The rules pick a slot at random, so an endpoint's share of slots is
// its share of new connections (docs/decisions/0006).
#pragma once

#include <cstdint>
#include <vector>

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

// Returns the number of slots for each weight (1 to kMaxWeight), at least one each. The weights are
// first divided by their greatest common divisor. If the quotients add up to at most max(256, 4 per
// endpoint), they are the slot counts. If the sum is larger, the total number of slots is this
// maximum, or more if necessary for precision. With up to 32,768 endpoints, an endpoint's share of
// the slots differs by less than 1/256 from its share of the weights. The total never exceeds
// kMaxEndpoints, except if the number of endpoints is already larger.
std::vector<uint32_t> SlotCounts(const std::vector<uint16_t>& weights);

// Returns `endpoints` (ascending) with each endpoint repeated once per slot. `weights` has one
// weight per endpoint, or is empty if all are equal.
std::vector<EndpointAddress> Weighted(std::vector<EndpointAddress> endpoints,
                                      const std::vector<uint16_t>& weights);

}  // namespace svcmap::proxy
