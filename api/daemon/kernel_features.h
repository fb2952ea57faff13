// Adapts the rules to the features and settings of the kernel, and reads the connection counters.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "proxy/connections/service_connections.h"
#include "proxy/ruleset/table.h"

namespace svcmap::api {

// Returns the method for resetting TCP connections to removed endpoints (--reset-stale-tcp, or an
// option of a Service). The method depends on the sysctl nf_conntrack_tcp_loose in the network
// namespace of the calling thread. If the sysctl cannot be read, logs that svcmapd assumes the
// kernel's default.
proxy::TcpResets ChooseTcpResets();

// Removes the rules for picks by hash from `ruleset`, with a warning, if the kernel does not
// support hashes. Missing support does not prevent svcmapd from starting: the Services pick
// endpoints at random.
void DropHashPicksIfUnsupported(proxy::RulesetOptions& ruleset);

// Disables counters in `ruleset`, with a warning, if the kernel rejects tables with counters.
// Missing kernel support does not prevent svcmapd from starting.
void DropCountersIfRejected(proxy::RulesetOptions& ruleset);

// Returns null if connections are not counted.
absl::StatusOr<std::unique_ptr<proxy::ConnectionReader>> OpenConnectionReader(
    const proxy::RulesetOptions& ruleset, proxy::Loop& loop);

}  // namespace svcmap::api
