// Connects to Services and compares the results with the agent's predictions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/check/probe.h"
#include "api/check/report.h"
#include "api/cli/client.h"
#include "api/cli/options.h"
#include "api/cli/session.h"

namespace svcmap::api {

// Output of `svcmapctl check`, so that it fits on the screen if possible.
std::string ReportPage(const CheckReport& report, const TerminalSize& screen);

// Returns an explanation if `lock_sockets`, the result of LockSockets(), shows that no svcmapd runs
// in the network namespace of this process, and otherwise "". Results of CheckServices() and
// connection tracking entries from another network namespace are meaningless.
std::string AgentElsewhere(const absl::StatusOr<std::vector<uint64_t>>& lock_sockets);

// Returns the error of a failed call to the agent.
absl::StatusOr<CheckReport> CheckServices(const CheckOptions& options, const Place& place,
                                          Reader& reader);

}  // namespace svcmap::api
