// How many slots of its set an endpoint has: the pick draws a slot, so that is its share of new
// connections (docs/decisions/0006).
#pragma once

#include <cstdint>
#include <vector>

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

// One number per weight (1..kMaxWeight). Each gets one slot or more.
// Where the weights, divided by their greatest common divisor, add up to at most max(256, 4 per
// endpoint), these are the slots. Otherwise there are that many, or more if that is what it takes:
// of up to 32,768 endpoints each one's share of the slots differs from its share of the weights by
// less than 1/256. Never more than kMaxEndpoints together, where one each is not more.
std::vector<uint32_t> SlotCounts(const std::vector<uint16_t>& weights);

// `endpoints` (ascending), each as often as it has slots. `weights`: one for each; empty: all the
// same.
std::vector<EndpointAddress> Weighted(std::vector<EndpointAddress> endpoints,
                                      const std::vector<uint16_t>& weights);

}  // namespace svcmap::proxy
