// Parses and prints the destination of a packet. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace svcmap::api {

struct Destination {
  std::string address;  // IP address in canonical form.
  uint16_t port = 0;
  std::string protocol;  // "TCP", "UDP" or "SCTP"
};

// Parses "10.96.0.10:53/UDP" or "[fd00::1]:80". The default protocol is TCP. Protocol names are not
// case-sensitive. The error message names the invalid part.
absl::StatusOr<Destination> ParseDestination(std::string_view text);

// A Service, and the name or number of one of its ports. An empty port means all ports.
struct ServicePortName {
  std::string name_space;
  std::string name;
  std::string port;
};

// Parses "shop/web" or "shop/web:http". Returns nullopt if `text` has another form.
std::optional<ServicePortName> ParseServicePort(std::string_view text);

// Returns "10.0.0.1:80" or "[fd00::1]:80".
std::string AddressAndPort(const std::string& address, uint32_t port);

}  // namespace svcmap::api
