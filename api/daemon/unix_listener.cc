#include "api/daemon/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "nft/base/status.h"

namespace svcmap::api {
namespace {

uint64_t InodeOf(const std::string& path) {
  struct stat found = {};
  return lstat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError("--listen: Too long: socket path " + path +
                                      " must have at most " +
                                      std::to_string(sizeof(address.sun_path) - 1) + " bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Returns an error if a process listens on the path, or if the path is not a socket.
absl::Status CheckUnused(const std::string& path, const sockaddr_un& address) {
  struct stat found = {};
  if (lstat(path.c_str(), &found) != 0) return absl::OkStatus();
  if (!S_ISSOCK(found.st_mode))
    return absl::AlreadyExistsError(path + " exists and is not a socket");
  // The probe is non-blocking, because a blocking connect waits forever if the listener's backlog
  // is full. With a full backlog, a non-blocking connect returns EAGAIN.
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno == EAGAIN || errno == EPROTOTYPE) {  // EPROTOTYPE: a live socket of another type.
    return absl::AlreadyExistsError("another process listens on " + path);
  }
  return absl::OkStatus();
}

// Creates the parent directory and removes a socket that no process listens on.
absl::Status MakeWay(const std::string& path, const sockaddr_un& address) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return ErrnoStatus(error.value(), "create the directory of " + path);
  if (absl::Status unused = CheckUnused(path, address); !unused.ok()) return unused;
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "remove the old socket " + path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnixListener>> UnixListener::Start(
    const std::vector<std::string>& paths, mode_t mode, Take take) {
  std::unique_ptr<UnixListener> listener(new UnixListener(std::move(take)));
  for (const std::string& path : paths) {
    if (const absl::Status status = listener->Listen(path, mode); !status.ok()) return status;
  }
  std::vector<int> sockets;
  for (const Socket& socket : listener->sockets_) sockets.push_back(socket.fd.get());
  auto loop = AcceptLoop::Start(
      std::move(sockets), [self = listener.get()](int socket) { return self->AcceptAll(socket); });
  if (!loop.ok()) return loop.status();
  listener->loop_ = *std::move(loop);
  return listener;
}

absl::Status UnixListener::Check(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const absl::StatusOr<sockaddr_un> address = AddressOf(path);
    if (!address.ok()) return address.status();
    if (absl::Status unused = CheckUnused(path, *address); !unused.ok()) return unused;
  }
  return absl::OkStatus();
}

UnixListener::~UnixListener() {
  loop_.reset();
  for (const Socket& socket : sockets_) {
    if (InodeOf(socket.path) == socket.inode) unlink(socket.path.c_str());
  }
}

absl::Status UnixListener::Listen(const std::string& path, mode_t mode) {
  const absl::StatusOr<sockaddr_un> made = AddressOf(path);
  if (!made.ok()) return made.status();
  const sockaddr_un& address = *made;
  if (absl::Status status = MakeWay(path, address); !status.ok()) return status;

  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return ErrnoStatus(errno, "create the socket " + path);
  const mode_t mask = umask(0777 & ~mode);
  const int bound = bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  umask(mask);
  if (bound != 0) return ErrnoStatus(error, "listen on unix://" + path);
  const uint64_t inode = InodeOf(path);
  sockets_.push_back({path, std::move(fd), inode});
  if (listen(sockets_.back().fd.get(), SOMAXCONN) != 0) {
    return ErrnoStatus(errno, "listen on unix://" + path);
  }
  return absl::OkStatus();
}

bool UnixListener::AcceptAll(int socket) {
  for (;;) {
    UniqueFd connection(accept4(socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.ok()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return errno == EAGAIN;
    }
    ucred peer = {};  // Credentials at the time of connect(2).
    socklen_t size = sizeof(peer);
    if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) continue;
    take_(std::move(connection), peer.uid);
  }
}

}  // namespace svcmap::api
