// --service-counters: whether the kernel can count, and what reads the counts.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proxy/connections/service_connections.h"
#include "proxy/ruleset/table.h"

namespace svcmap::api {

// Where the kernel does not take tables that count, `ruleset` is to be one that does not, and the
// log says so: counters are no reason not to start.
void DropCountersIfRefused(proxy::RulesetOptions& ruleset);

// Null if connections are not counted.
absl::StatusOr<std::unique_ptr<proxy::ConnectionReader>> OpenConnectionReader(
    const proxy::RulesetOptions& ruleset, proxy::Loop& loop);

}  // namespace svcmap::api
