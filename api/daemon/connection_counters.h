// Checks the kernel's support for connection counters of Services (--service-counters), and reads
// the counters.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proxy/connections/service_connections.h"
#include "proxy/ruleset/table.h"

namespace svcmap::api {

// Disables counters in `ruleset`, with a warning, if the kernel rejects tables with counters.
// Missing kernel support does not prevent svcmapd from starting.
void DropCountersIfRejected(proxy::RulesetOptions& ruleset);

// Returns null if connections are not counted.
absl::StatusOr<std::unique_ptr<proxy::ConnectionReader>> OpenConnectionReader(
    const proxy::RulesetOptions& ruleset, proxy::Loop& loop);

}  // namespace svcmap::api
