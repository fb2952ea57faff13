// Where the agent listens, as people write it and as gRPC wants it. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/tls/tls_files.h"

namespace svcmap::api {

inline constexpr std::string_view kDefaultAddress = "unix:///run/svcmap/svcmap.sock";

// The gRPC target of "unix:///path/to/socket" or "tcp://host:port" (IPv6 in brackets). The error
// names the address and what is wrong with it.
absl::StatusOr<std::string> ParseTarget(std::string_view address);

// Whether --tls-ca, --tls-cert and --tls-key, which `tls` has, go with one another and `address`.
absl::Status CheckTlsFlags(const TlsFiles& tls, std::string_view address);

}  // namespace svcmap::api
