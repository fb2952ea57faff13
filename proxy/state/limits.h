// Limits for the amount of stored state. An object that exceeds a limit is rejected without
// affecting other objects. Stored objects are kept. Changes that do not increase the stored amount
// are always accepted. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "proxy/ruleset/descriptor.h"
#include "proxy/state/objects.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct StateLimits {
  size_t objects = 500'000;                      // Total number of objects of all kinds.
  size_t endpoints_per_service = kMaxEndpoints;  // Endpoints in all EndpointSlices of one family.
  uint64_t bytes = uint64_t{512} << 20;          // Total size of all objects as received.
  uint64_t elements = 5'000'000;                 // Total of ElementCount() over all objects.
};

// Maximum number of ports times endpoints in all EndpointSlices of a Service, per family. The limit
// bounds the size of one commit, because all changes of a Service are in the same commit.
inline constexpr uint64_t kMaxPortsTimesEndpoints = uint64_t{1} << 18;

// Returns a finding if `change` would exceed a limit, or nullopt.
std::optional<Finding> OverLimit(const Store& store, const Change& change,
                                 const StateLimits& limits);

}  // namespace svcmap::proxy
