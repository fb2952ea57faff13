// How much the end of a snapshot would remove. A controller with an empty cache, or of another
// cluster, sends a snapshot that would remove most objects of a node.
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
  Part previous_services;  // Services in the kernel that only the previous run knows.
};

// The bound applies to at least this number of objects.
inline constexpr size_t kMinBoundedObjects = 20;

// Returns the losses of at least `percent` of at least kMinBoundedObjects objects of one kind, such
// as "95 of 100 Services, 190 of 200 EndpointSlices", or "" if there are none. A `percent` of 0
// means no bound.
std::string LossBeyond(const SnapshotLoss& loss, unsigned percent);

}  // namespace svcmap::proxy
