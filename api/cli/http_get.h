// Reads a page of the agent's metrics server.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/statusor.h"

namespace svcmap::api {

// Returns the body of http://ADDRESS/PATH. `address` is HOST:PORT, with an IPv6 address in
// brackets. Returns an error if the server does not answer completely within `timeout`, if the
// status is not 200, or if the body has more than 128 MiB or the headers have more than 1 MiB.
absl::StatusOr<std::string> HttpGet(const std::string& address, const std::string& path,
                                    std::chrono::milliseconds timeout);

}  // namespace svcmap::api
