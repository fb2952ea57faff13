// Requests to etcd of the fleet commands.
#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "api/cli/session.h"

namespace svcmap::api {

inline constexpr std::chrono::seconds kEtcdTimeout{10};  // For each request.

// Prints why a request has failed, and returns the exit code.
ExitCode EtcdFailed(const absl::Status& status, const Session& session);

}  // namespace svcmap::api
