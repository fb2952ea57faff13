// Connections between clients and gRPC, and a thread that waits for their events and relays their
// bytes.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "api/screen/screen.h"
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

class ScreenLoop {
 public:
  using Connection = ScreenedConnection;

  explicit ScreenLoop(Screen& screen);
  ~ScreenLoop();

  absl::Status Start();
  // Thread-safe.
  void Add(std::unique_ptr<Connection> connection);

 private:
  void Run();
  // Removes the connections that gRPC has released from the limits. Without this delay, clients
  // could open connections faster than gRPC frees the calls of closed connections.
  void RemoveClosed();
  void TakeAdded();
  void CheckDeadlines();
  // Closes the connections of trusted clients that do not read. gRPC cannot close such a connection
  // while a write is blocked.
  void CheckUnread();
  void OnEvent(Connection::Side& side, uint32_t events);
  // Handles a connection that the client has closed, or that was shut down in favor of a newer
  // connection.
  void Gone(Connection& connection);
  void Handshake(Connection& connection);
  // Return false if the connection was closed.
  bool ReadClient(Connection& connection);
  bool ReadServer(Connection& connection);
  // Writes as many pending bytes as the socket of `side` accepts. Returns false if the connection
  // was closed.
  bool Flush(Connection& connection, Connection::Side& side);
  // Call after any change of the connection's state. Registers the events to wait for, or closes
  // the connection.
  void Proceed(Connection& connection);
  void SetDeadline(Connection& connection, ScreenClock::time_point deadline);
  void UpdateInterest(Connection& connection);
  // Unregisters the descriptor if `events` is 0, because epoll reports EPOLLHUP for every
  // registered descriptor.
  void Watch(Connection::Side& side, uint32_t events);
  // Passes the connection to gRPC. The relay then owns the connection, unless the client is
  // trusted.
  void HandOver(Connection& connection);
  void Punish(Connection& connection, Rejection offence);
  void Reject(Connection& connection, Rejection reason, const std::string& detail);
  void Close(Connection& connection);
  bool TrimIsDue() const;
  // Both loops call CountForTrim. An offence counts as kTrimAfter connections.
  void CountForTrim(size_t connections);
  // Returns the memory of closed connections to the system, after gRPC has had time to free the
  // memory.
  void MaybeTrim();

  // A closed connection that gRPC may still use.
  struct Closing {
    ConnectionLimits::Handle handle;
    GrpcEnd grpc_end;
  };

  Screen& screen_;
  UniqueFd epoll_;
  UniqueFd wake_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connection>> added_;  // Guarded by mutex_.

  // Used only on the thread of the loop.
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connection>> dead_;
  std::vector<Closing> closing_;
  size_t connections_with_deadline_ = 0;
  ScreenClock::time_point now_ = ScreenClock::now();
  ScreenClock::time_point check_unread_at_ = {};
  std::optional<ScreenClock::time_point> trim_at_;
  std::vector<char> buffer_;
  std::thread thread_;
};

}  // namespace svcmap::api
