#include "api/daemon/tcp_listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace svcmap::api {
namespace {

constexpr unsigned kUserTimeoutMilliseconds = 40000;

absl::Status CannotListen(const std::string& address, const std::string& reason) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on tcp://", address, reason.empty() ? "" : ": ", reason));
}

bool IsWildcard(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == INADDR_ANY;
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

uint16_t PortOf(const sockaddr* address) {
  return address->sa_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(address)->sin_port
                                       : reinterpret_cast<const sockaddr_in6*>(address)->sin6_port;
}

// Returns -1 and sets errno if the address cannot be bound.
UniqueFd BindSocket(const sockaddr* address, socklen_t size, bool only_ipv6) {
  UniqueFd fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return fd;
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address->sa_family == AF_INET6) {
    const int only = only_ipv6 ? 1 : 0;
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  }
  if (bind(fd.get(), address, size) != 0) return UniqueFd();
  return fd;
}

TcpClient ClientOf(const sockaddr_storage& from) {
  char text[INET6_ADDRSTRLEN] = {};
  if (from.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return {text, absl::StrCat(text, ":", ntohs(v4.sin_port))};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof(text));
    return {text, absl::StrCat(text, ":", ntohs(v6.sin6_port))};
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  const std::string name = absl::StrCat("[", text, "]:", ntohs(v6.sin6_port));
  in6_addr network = v6.sin6_addr;
  std::memset(network.s6_addr + 8, 0, 8);
  inet_ntop(AF_INET6, &network, text, sizeof(text));
  return {absl::StrCat(text, "/64"), name};
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpListener>> TcpListener::Start(
    const std::vector<std::string>& addresses, Take take) {
  std::unique_ptr<TcpListener> listener(new TcpListener(std::move(take)));
  for (const std::string& address : addresses) {
    if (absl::Status status = listener->Bind(address); !status.ok()) return status;
    // Another socket may listen on an address that both sockets could bind.
    for (const UniqueFd& socket : listener->sockets_) {
      if (listen(socket.get(), SOMAXCONN) != 0) return CannotListen(address, std::strerror(errno));
    }
  }
  std::vector<int> sockets;
  for (const UniqueFd& socket : listener->sockets_) sockets.push_back(socket.get());
  auto loop = AcceptLoop::Start(
      std::move(sockets), [self = listener.get()](int socket) { return self->AcceptAll(socket); });
  if (!loop.ok()) return loop.status();
  listener->loop_ = *std::move(loop);
  return listener;
}

absl::Status TcpListener::Check(const std::vector<std::string>& addresses) {
  TcpListener listener(nullptr);
  for (const std::string& address : addresses) {
    if (absl::Status status = listener.Bind(address); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TcpListener::Bind(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                address.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) return CannotListen(address, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);

  if (IsWildcard(found->ai_addr)) {
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    any.sin6_port = PortOf(found->ai_addr);
    UniqueFd fd =
        BindSocket(reinterpret_cast<const sockaddr*>(&any), sizeof(any), /*only_ipv6=*/false);
    if (fd.ok()) {
      sockets_.push_back(std::move(fd));
      return absl::OkStatus();
    }
  }
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    UniqueFd fd = BindSocket(info->ai_addr, info->ai_addrlen, /*only_ipv6=*/true);
    if (!fd.ok()) return CannotListen(address, std::strerror(errno));
    sockets_.push_back(std::move(fd));
  }
  return absl::OkStatus();
}

bool TcpListener::AcceptAll(int socket) {
  for (int i = 0; i < SOMAXCONN; ++i) {
    sockaddr_storage from = {};
    socklen_t size = sizeof(from);
    UniqueFd connection(
        accept4(socket, reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.ok()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) return false;
      if (errno == EAGAIN) return true;
      continue;  // EINTR, or an error of a connection that is already closed.
    }
    const int on = 1;
    setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    // After svcmapd has closed a connection, the kernel keeps data that the client has not read.
    // The timeout limits the time. It is longer than the time limit of the screen for open
    // connections.
    setsockopt(connection.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMilliseconds,
               sizeof(kUserTimeoutMilliseconds));
    take_(std::move(connection), ClientOf(from));
  }
  return true;
}

}  // namespace svcmap::api
