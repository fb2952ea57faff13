#include "api/daemon/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/health/bind_address.h"
#include "nft/base/status.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {
namespace {

constexpr unsigned kUserTimeoutMilliseconds = 40000;

absl::Status CannotListen(const std::string& address, const std::string& reason) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on tcp://", address, reason.empty() ? "" : ": ", reason));
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

std::string ClientOf(const sockaddr_storage& from) {
  const IpAddress address = *IpAddressOf(reinterpret_cast<const sockaddr*>(&from));
  if (address.family() == Family::kIpv4) return address.ToString();
  if (IN6_IS_ADDR_V4MAPPED(&reinterpret_cast<const sockaddr_in6&>(from).sin6_addr)) {
    return IpAddress::FromBytes(address.bytes().subspan(12))->ToString();
  }
  return IpPrefix(address, 64).ToString();
}

ino_t InodeOf(const std::string& path) {
  struct stat found = {};
  return lstat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

absl::StatusOr<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("--listen: Too long: socket path ", path,
                                                   " must have at most ",
                                                   sizeof(address.sun_path) - 1, " bytes"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Returns an error if a process listens on the path, or if the path is not a socket.
absl::Status CheckUnused(const std::string& path) {
  const absl::StatusOr<sockaddr_un> address = UnixAddress(path);
  if (!address.ok()) return address.status();
  struct stat found = {};
  if (lstat(path.c_str(), &found) != 0) return absl::OkStatus();
  if (!S_ISSOCK(found.st_mode)) {
    return absl::AlreadyExistsError(path + " exists and is not a socket");
  }
  // The probe is non-blocking, because a blocking connect waits forever if the listener's backlog
  // is full. With a full backlog, a non-blocking connect returns EAGAIN.
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0 ||
      errno == EAGAIN || errno == EPROTOTYPE) {  // EPROTOTYPE: a live socket of another type.
    return absl::AlreadyExistsError("another process listens on " + path);
  }
  return absl::OkStatus();
}

}  // namespace

Listener::Listener(TakeTcp take_tcp, TakeUnix take_unix)
    : take_tcp_(std::move(take_tcp)), take_unix_(std::move(take_unix)) {}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(
    const std::vector<ListenAddress>& addresses, mode_t mode, TakeTcp take_tcp,
    TakeUnix take_unix) {
  std::unique_ptr<Listener> listener(new Listener(std::move(take_tcp), std::move(take_unix)));
  for (const auto& [is_unix, address] : addresses) {
    const absl::Status bound =
        is_unix ? listener->BindUnix(address, mode) : listener->BindTcp(address);
    if (!bound.ok()) return bound;
    // Another socket may listen on an address that both sockets could bind.
    for (const Socket& socket : listener->sockets_) {
      if (listen(socket.fd.get(), SOMAXCONN) == 0) continue;
      return is_unix ? ErrnoStatus(errno, "listen on unix://" + address)
                     : CannotListen(address, std::strerror(errno));
    }
  }
  for (Socket& socket : listener->sockets_) {
    AcceptEvent::Take take = std::bind_front(&Listener::AcceptTcp, listener.get());
    if (!socket.path.empty()) take = std::bind_front(&Listener::AcceptUnix, listener.get());
    socket.accepting.emplace(listener->thread_.base(), std::move(socket.fd), std::move(take));
  }
  listener->thread_.Start();
  return listener;
}

absl::Status Listener::Check(const std::vector<ListenAddress>& addresses) {
  Listener listener(nullptr, nullptr);
  for (const auto& [is_unix, address] : addresses) {
    const absl::Status status = is_unix ? CheckUnused(address) : listener.BindTcp(address);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

Listener::~Listener() {
  thread_.Stop();
  for (const Socket& socket : sockets_) {
    if (!socket.path.empty() && InodeOf(socket.path) == socket.inode) unlink(socket.path.c_str());
  }
}

absl::Status Listener::BindTcp(const std::string& address) {
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

  if (IpAddressOf(found->ai_addr)->IsUnspecified()) {
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    any.sin6_port = PortOf(found->ai_addr);
    UniqueFd fd =
        BindSocket(reinterpret_cast<const sockaddr*>(&any), sizeof(any), /*only_ipv6=*/false);
    if (fd.ok()) {
      sockets_.emplace_back().fd = std::move(fd);
      return absl::OkStatus();
    }
  }
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    UniqueFd fd = BindSocket(info->ai_addr, info->ai_addrlen, /*only_ipv6=*/true);
    if (!fd.ok()) return CannotListen(address, std::strerror(errno));
    sockets_.emplace_back().fd = std::move(fd);
  }
  return absl::OkStatus();
}

// Creates the parent directory and replaces a socket that no process listens on.
absl::Status Listener::BindUnix(const std::string& path, mode_t mode) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  if (failed) return ErrnoStatus(failed.value(), "create the directory of " + path);
  if (absl::Status unused = CheckUnused(path); !unused.ok()) return unused;
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "remove the old socket " + path);
  }
  const sockaddr_un address = *UnixAddress(path);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return ErrnoStatus(errno, "create the socket " + path);
  const mode_t mask = umask(0777 & ~mode);
  const int bound = bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  umask(mask);
  if (bound != 0) return ErrnoStatus(error, "listen on unix://" + path);
  Socket& bound_socket = sockets_.emplace_back();
  bound_socket.fd = std::move(fd);
  bound_socket.path = path;
  bound_socket.inode = InodeOf(path);
  return absl::OkStatus();
}

void Listener::AcceptTcp(UniqueFd connection, const sockaddr_storage& from) {
  const int on = 1;
  setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // After svcmapd has closed a connection, the kernel keeps data that the client has not read. The
  // timeout limits the time. It is longer than the time limit of the screen for open connections.
  setsockopt(connection.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMilliseconds,
             sizeof(kUserTimeoutMilliseconds));
  take_tcp_(std::move(connection), ClientOf(from));
}

void Listener::AcceptUnix(UniqueFd connection, const sockaddr_storage&) {
  ucred peer = {};  // Credentials at the time of connect(2).
  socklen_t size = sizeof(peer);
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
  take_unix_(std::move(connection), peer.uid);
}

}  // namespace svcmap::api
