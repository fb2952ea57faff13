// Which endpoints a Service port may be sent to. Pure: Service and slices in, endpoints out.
#pragma once

#include <cstdint>
#include <vector>

#include "proxy/state/store.h"

namespace svcmap::proxy {

struct EndpointAddress {
  IpAddress ip;
  uint16_t port = 0;

  friend auto operator<=>(const EndpointAddress&, const EndpointAddress&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const EndpointAddress& endpoint) {
    return H::combine(std::move(state), endpoint.ip, endpoint.port);
  }
};

struct ResolvedEndpoints {
  // Where new connections go: the READY endpoints, or those serving while terminating when none is
  // ready (S-33). Ascending, each once.
  std::vector<EndpointAddress> usable;
  // Those of them on this node: they may connect to themselves (S-97).
  std::vector<EndpointAddress> local;
};

// The cluster set of one port in one family. Slices are matched by port name and protocol (S-21);
// an address that several of them list counts once, and a non-terminating entry beats a terminating
// one (S-26).
ResolvedEndpoints ResolveEndpoints(const ServiceEntry& entry, Family family,
                                   const ServicePort& port);

}  // namespace svcmap::proxy
