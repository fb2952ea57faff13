// Number of slots per endpoint. The rules pick a slot at random, so an endpoint's share of slots is
// its share of new connections (docs/decisions/0006).
#pragma once

#include <cstdint>
#include <vector>

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

// Returns the number of slots for each weight (1 to kMaxWeight), which is at least 1. The weights
// are first divided by their greatest common divisor. The quotients are the slot counts if their
// sum is at most max(256, 4 per endpoint). If the sum of the quotients is larger, the total number
// of slots is max(256, 4 per endpoint), or more if the precision requires more slots. With up to
// 32,768 endpoints, an endpoint's share of the slots differs by less than 1/256 from its share of
// the weights. The total number of slots exceeds kMaxEndpoints only if there are more endpoints
// than kMaxEndpoints.
std::vector<uint32_t> SlotCounts(const std::vector<uint16_t>& weights);

// Returns `endpoints` (ascending) with each endpoint repeated once per slot. `weights` contains one
// weight per endpoint, or is empty if all weights are equal.
std::vector<EndpointAddress> Weighted(std::vector<EndpointAddress> endpoints,
                                      const std::vector<uint16_t>& weights);

}  // namespace svcmap::proxy
