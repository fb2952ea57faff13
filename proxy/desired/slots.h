// The endpoints of the slots of a group. The rules pick a slot at random or by a hash of the
// client, so an endpoint's share of slots is its share of new connections (docs/decisions/0006).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

// Returns the slots for `wanted`, with few differences from `before`. `wanted` is ascending and
// contains each endpoint once per slot. Remaining endpoints keep their slots, and new endpoints
// take the slots of removed endpoints. If the group shrinks, the endpoints in the last slots move
// to the free slots.
std::vector<EndpointAddress> AssignSlots(const std::vector<EndpointAddress>& before,
                                         const std::vector<EndpointAddress>& wanted);

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

// Hash tables for endpoint picks by hash. The rules use the hash of a client as the slot number, so
// a client keeps its endpoint without state in the kernel. The tables follow the Maglev algorithm
// (Eisenbud et al., NSDI 2016, section 3.4): equal endpoints and weights result in equal tables on
// all nodes, and the departure of an endpoint moves few clients of the remaining endpoints
// (docs/decisions/0015).

// Returns the number of slots in the hash table of a Service port. `endpoints` is the number of its
// endpoints, at most kMaxHashedEndpoints.
uint32_t PickTableSize(const Service& service, size_t endpoints);

// Returns the endpoint of each slot. `endpoints` is ascending and has 1 to `slots` entries.
// `weights` (1 to kMaxWeight) has one entry per endpoint, or is empty if all weights are equal.
// `slots` is in kHashTableSizes. Each endpoint has at least one slot.
std::vector<EndpointAddress> MakeHashTable(const std::vector<EndpointAddress>& endpoints,
                                           const std::vector<uint16_t>& weights, uint32_t slots);

// Returns the slot that the rules use for a client with PickBy::kClient.
uint32_t SlotOfClient(const IpAddress& client, uint32_t slots);

}  // namespace svcmap::proxy
