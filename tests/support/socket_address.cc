#include "tests/support/socket_address.h"

#include <arpa/inet.h>

#include "absl/strings/str_cat.h"

namespace svcmap::testing {

absl::StatusOr<SocketAddress> SocketAddress::Parse(const std::string& ip, uint16_t port) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage_);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage_);
  if (::inet_pton(AF_INET, ip.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    return address;
  }
  if (::inet_pton(AF_INET6, ip.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    return address;
  }
  return absl::InvalidArgumentError(absl::StrCat("not an IP address: '", ip, "'"));
}

std::string SocketAddress::ip() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr, text,
                sizeof(text));
  } else if (v6()) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr, text,
                sizeof(text));
  }
  return text;
}

uint16_t SocketAddress::port() const {
  // sin_port and sin6_port are at the same offset.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

}  // namespace svcmap::testing
