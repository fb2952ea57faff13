// Listen addresses of the HTTP servers and their sockets.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {

struct BindAddress {
  IpAddress address;
  uint16_t port = 0;

  // Parses "0.0.0.0:10256" and "[::]:10256". Addresses without a port get `default_port` (S-295).
  static absl::StatusOr<BindAddress> Parse(const std::string& text, uint16_t default_port);

  std::string ToString() const { return address.WithPort(port); }  // "0.0.0.0:10256", "[::]:10256"
};

// The address of a socket, for bind(2) and connect(2).
class SocketAddress {
 public:
  explicit SocketAddress(const BindAddress& at);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  int family() const { return storage_.ss_family; }

 private:
  sockaddr_storage storage_ = {};
  socklen_t size_ = 0;
};

// Returns the IP address in `address`, or nullopt if `address` is null or has another family.
std::optional<IpAddress> IpAddressOf(const sockaddr* address);

// Address families of a socket at an unspecified address, "0.0.0.0" or "::": only the family of the
// address, or both families as in Go's net.Listen, which kube-proxy uses.
enum class Stack : uint8_t { kOne, kBoth };

// Interfaces from which a socket accepts connections.
enum class Interfaces : uint8_t { kAll, kLoopback };

// Returns a non-blocking TCP socket that listens on `at`. With Stack::kBoth, the kernel may have no
// IPv6.
absl::StatusOr<UniqueFd> Listen(const BindAddress& at, Stack stack,
                                Interfaces interfaces = Interfaces::kAll);

}  // namespace svcmap::api
