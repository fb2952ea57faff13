// Where a packet goes, as people type it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace svcmap::api {

struct Destination {
  std::string address;  // Canonical.
  uint16_t port = 0;
  std::string protocol;  // "TCP", "UDP" or "SCTP"
};

// "10.96.0.10:53/UDP", "[fd00::1]:80"; without protocol it is TCP, which may be in lower case. The
// error says what is wrong with `text`.
absl::StatusOr<Destination> ParseDestination(std::string_view text);

// "10.0.0.1:80", "[fd00::1]:80"
std::string AddressAndPort(const std::string& address, uint32_t port);

}  // namespace svcmap::api
