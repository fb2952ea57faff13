// A connection between a client and gRPC, and the input and output on its two sockets.
#pragma once

#include <sys/stat.h>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "api/screen/connection_limits.h"
#include "api/screen/frame_check.h"
#include "api/screen/peer.h"
#include "api/screen/rejections.h"
#include "api/screen/tls_server.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

using ScreenClock = TokenBucket::Clock;

// Tells when gRPC has closed its end of a socket pair. gRPC closes its end after it has freed all
// calls of the connection. The other end of the pair shows only when gRPC stops reading and
// writing.
class GrpcEnd {
 public:
  GrpcEnd() = default;  // An end that is not open.
  explicit GrpcEnd(int fd) : fd_(fd), inode_(InodeOf(fd)) {}

  bool is_open() const { return fd_ >= 0 && InodeOf(fd_) == inode_; }

 private:
  // The number of a closed descriptor is reused, but not together with the inode of its socket.
  static ino_t InodeOf(int fd) {
    struct stat found = {};
    return fstat(fd, &found) == 0 ? found.st_ino : 0;
  }

  int fd_ = -1;
  ino_t inode_ = 0;
};

// kEof is only returned for reads.
enum class Io { kDone, kBlocked, kEof, kFailed };

// Not thread-safe. The loop that owns the connection uses it.
struct ScreenedConnection {
  // One of the two sockets of a connection, registered with epoll.
  struct Side {
    ScreenedConnection* connection = nullptr;
    UniqueFd fd;
    // Events registered with epoll, or 0 if the descriptor is not registered.
    uint32_t interest = 0;
    std::string pending;  // Bytes from the other side that have not been written to this side yet.
    bool eof = false;
  };

  ScreenedConnection(UniqueFd fd, Peer from, ConnectionLimits::Handle entry,
                     const FrameLimits& limits, ScreenClock::time_point now)
      : peer(std::move(from)), handle(entry), check(limits, now) {
    client.connection = server.connection = this;
    client.fd = std::move(fd);
  }

  // Read from, or write to, a socket, with TLS if the client uses TLS. `count` is the number of
  // bytes, and is set only for Io::kDone.
  Io Read(Side& side, std::span<char> into, size_t& count);
  Io Write(Side& side, std::string_view bytes, size_t& count);

  Side client;
  Side server;  // Has no descriptor until gRPC has received its end of the socket pair.
  GrpcEnd grpc_end;
  SslConnection ssl;
  bool handshake = false;    // True while the TLS handshake is in progress.
  bool wants_write = false;  // True if TLS must write before TLS can continue.
  Peer peer;
  ConnectionLimits::Handle handle;
  FrameCheck check;
  ScreenClock::time_point deadline = ScreenClock::time_point::max();
  // Of a trusted client: the memory of unread bytes in the socket, and the time since when it has
  // not changed.
  int unread = 0;
  ScreenClock::time_point unread_since = {};
  // Reason why the connection is being closed, or nullopt if the client or gRPC closes it.
  std::optional<Rejection> rejection;
  std::string rejection_detail;
  bool dead = false;
};

}  // namespace svcmap::api
