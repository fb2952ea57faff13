// An IP address and port in the form that socket calls expect.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace svcmap::testing {

class SocketAddress {
 public:
  SocketAddress() = default;

  // `ip` is an address such as "10.0.0.1" or "fd00::1".
  static absl::StatusOr<SocketAddress> Parse(const std::string& ip, uint16_t port);

  int family() const { return storage_.ss_family; }
  bool v6() const { return family() == AF_INET6; }
  std::string ip() const;  // Returns an empty string if no address is set.
  uint16_t port() const;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return v6() ? sizeof(sockaddr_in6) : sizeof(sockaddr_in); }

  // Returns the buffer for calls that return an address (accept, recvmsg).
  sockaddr* out() { return reinterpret_cast<sockaddr*>(&storage_); }
  static constexpr socklen_t kCapacity = sizeof(sockaddr_storage);

 private:
  sockaddr_storage storage_ = {};
};

}  // namespace svcmap::testing
