// Converts the agent's address from the command line to a gRPC target. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/tls/tls_files.h"

namespace svcmap::api {

inline constexpr std::string_view kDefaultAddress = "unix:///run/svcmap/svcmap.sock";

// Returns the gRPC target of "unix:///path/to/socket" or "tcp://host:port". IPv6 addresses must be
// in brackets. The error message contains the address and the expected form.
absl::StatusOr<std::string> ParseTarget(std::string_view address);

// Returns an error if --tls-ca, --tls-cert and --tls-key (in `tls`) conflict with each other or
// with `address`.
absl::Status CheckTlsFlags(const TlsFiles& tls, std::string_view address);

}  // namespace svcmap::api
