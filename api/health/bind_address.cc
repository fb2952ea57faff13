#include "api/health/bind_address.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "nft/base/status.h"

namespace svcmap::api {
namespace {

constexpr int kBacklog = 512;

// The loopback interface has this index in every network namespace.
constexpr int kLoopbackIndex = 1;

}  // namespace

SocketAddress::SocketAddress(const BindAddress& at) {
  const auto bytes = at.address.bytes();
  if (at.address.family() == Family::kIpv4) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage_);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(at.port);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(&v4->sin_addr));
    size_ = sizeof(*v4);
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage_);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(at.port);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(&v6->sin6_addr));
    size_ = sizeof(*v6);
  }
}

std::optional<IpAddress> IpAddressOf(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    return IpAddress::V4(reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
  }
  if (address->sa_family == AF_INET6) {
    return IpAddress::V6(reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  }
  return std::nullopt;
}

absl::StatusOr<BindAddress> BindAddress::Parse(const std::string& text, uint16_t default_port) {
  BindAddress at{.port = default_port};
  std::string address = text;
  std::string port;
  const size_t colon = text.rfind(':');
  const bool bracketed = text.starts_with('[');
  const bool has_port = bracketed ? colon != std::string::npos && text[colon - 1] == ']'
                                  : colon != std::string::npos && colon == text.find(':');
  if (has_port) {
    address = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (bracketed && address.ends_with(']')) address = address.substr(1, address.size() - 2);
  const std::optional<IpAddress> parsed = IpAddress::Parse(address);
  if (!parsed || (bracketed && parsed->family() == Family::kIpv4)) {
    return absl::InvalidArgumentError("Invalid value: \"" + text +
                                      "\": must be an IP address with an optional port, such as "
                                      "\"0.0.0.0:10256\" or \"[::]:10256\"");
  }
  at.address = *parsed;
  if (!has_port) return at;
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number < 1 || number > 65535) {
    return absl::InvalidArgumentError("Invalid value: \"" + text +
                                      "\": port must be between 1 and 65535, inclusive");
  }
  at.port = static_cast<uint16_t>(number);
  return at;
}

absl::StatusOr<UniqueFd> Listen(const BindAddress& at, Stack stack, Interfaces interfaces) {
  const bool both = stack == Stack::kBoth && at.address.IsUnspecified();
  const auto create = [](const SocketAddress& address) {
    return UniqueFd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  };
  SocketAddress address(both ? BindAddress{*IpAddress::Parse("::"), at.port} : at);
  UniqueFd fd = create(address);
  if (!fd.ok() && errno == EAFNOSUPPORT && both) {
    address = SocketAddress({*IpAddress::Parse("0.0.0.0"), at.port});
    fd = create(address);
  }
  if (!fd.ok()) return ErrnoStatus(errno, "create a socket");
  const int on = 1;
  const int v6_only = stack == Stack::kOne ? 1 : 0;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (interfaces == Interfaces::kLoopback &&
      setsockopt(fd.get(), SOL_SOCKET, SO_BINDTOIFINDEX, &kLoopbackIndex, sizeof(kLoopbackIndex)) !=
          0) {
    return ErrnoStatus(errno, "bind a socket to the loopback interface");
  }
  if (address.family() == AF_INET6 &&
      setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only)) != 0) {
    return ErrnoStatus(errno, "set IPV6_V6ONLY");
  }
  if (bind(fd.get(), address.get(), address.size()) != 0 || listen(fd.get(), kBacklog) != 0) {
    return ErrnoStatus(errno, "listen on " + at.ToString());
  }
  return fd;
}

}  // namespace svcmap::api
