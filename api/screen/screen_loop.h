// A thread that waits for events of a set of connections, and relays their bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "api/screen/screen.h"
#include "api/screen/screened_connection.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

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
