// Hash tables for endpoint picks by hash. The rules use the hash of a client as the slot number, so
// a client keeps its endpoint without state in the kernel. The tables follow the Maglev algorithm
// (Eisenbud et al., NSDI 2016, section 3.4): equal endpoints and weights result in equal tables on
// all nodes, and the departure of an endpoint moves few clients of the remaining endpoints
// (docs/decisions/0015).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

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
