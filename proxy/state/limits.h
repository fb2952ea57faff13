// How much of what we are told is held. What goes over a limit is refused as a single object; what
// is held already stays, and a change that makes nothing bigger is always taken.
// Pure functions.
#pragma once

#include <cstddef>
#include <optional>

#include "proxy/ruleset/descriptor.h"
#include "proxy/state/objects.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct StateLimits {
  size_t objects = 500'000;                      // Of all kinds together.
  size_t endpoints_per_service = kMaxEndpoints;  // In all its slices of one family.
};

// Why `change` would go over a limit; nothing if it would not.
std::optional<Finding> OverLimit(const Store& store, const Change& change,
                                 const StateLimits& limits);

}  // namespace svcmap::proxy
