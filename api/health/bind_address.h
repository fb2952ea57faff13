// Where to listen, and the sockets that do.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {

struct BindAddress {
  IpAddress address;
  uint16_t port = 0;

  // Reads "0.0.0.0:10256", "[::]:10256", and addresses without a port, which get `default_port`
  // (S-295).
  static absl::StatusOr<BindAddress> Parse(const std::string& text, uint16_t default_port);

  std::string ToString() const;  // "0.0.0.0:10256", "[::]:10256"
};

// Whether a socket at "::" also gets what comes by IPv4.
enum class Stack : uint8_t { kOne, kBoth };

// A TCP socket that listens there and does not block.
absl::StatusOr<UniqueFd> Listen(const BindAddress& at, Stack stack);

}  // namespace svcmap::api
