// TCP nodePorts on loopback addresses (S-113). The rules cannot translate packets to loopback
// addresses, so api/localhost forwards these connections. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proxy/resolve/endpoints.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

// A TCP nodePort of a Service in one IP family, and its endpoints for external traffic.
struct LocalhostNodePort {
  Family family = Family::kIpv4;
  uint16_t port = 0;
  std::vector<EndpointAddress> endpoints;  // Ascending, without duplicates.
  // Weights of `endpoints`, in the same order. Empty if all weights are equal.
  std::vector<uint16_t> weights;
  uint32_t affinity_seconds = 0;  // 0 without session affinity.

  friend bool operator==(const LocalhostNodePort&, const LocalhostNodePort&) = default;
};

using LocalhostNodePorts = std::vector<LocalhostNodePort>;
// Pairs of a Service key and the Service's nodePorts on loopback addresses.
using LocalhostNodePortChanges = std::vector<std::pair<std::string, LocalhostNodePorts>>;

// Returns the nodePorts of a Service in the families for which `families` is true, by
// Index(Family). `entry` may be null. If several Services use the same nodePort, only the Service
// that owns the nodePort in `claims` gets it.
LocalhostNodePorts LocalhostNodePortsOf(const ServiceEntry* entry, const Claims& claims,
                                        const NodePlace& place, const bool (&families)[2]);

}  // namespace svcmap::proxy
