// Numbers of objects that the end of a snapshot would remove. For example, a controller with an
// empty cache, or a controller of another cluster, sends a snapshot that would remove most objects
// of a node.
#pragma once

#include <cstddef>
#include <string>

#include "proxy/state/objects.h"

namespace svcmap::proxy {

struct SnapshotLoss {
  struct Part {
    size_t lost = 0;
    size_t before = 0;  // Number before the snapshot.
  };
  Part kinds[4];           // Objects, by Index(Kind).
  Part with_endpoints;     // Services with endpoints.
  Part previous_services;  // Services with endpoints in the rules of the previous run.
};

// LossBeyond() ignores a Part if Part::before is smaller than this number.
inline constexpr size_t kMinBoundedObjects = 20;

// Returns each loss of at least `percent` of the objects of one kind, such as "95 of 100 Services,
// 190 of 200 EndpointSlices". Ignores kinds with fewer than kMinBoundedObjects objects. Returns ""
// if there is no such loss, or if `percent` is 0.
std::string LossBeyond(const SnapshotLoss& loss, unsigned percent);

}  // namespace svcmap::proxy
