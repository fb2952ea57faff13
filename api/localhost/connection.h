// Forwarded connections and their limits. Used only on the thread of the event loop.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "api/health/event.h"
#include "nft/base/unique_fd.h"
#include "proxy/localhost/nodeports.h"

namespace svcmap::api {

// Limits of the forwarder: maximum number of open connections of all nodePorts.
inline constexpr size_t kMaxForwardedConnections = 1024;
// File descriptors of a connection: two sockets, and a pipe for each direction.
inline constexpr size_t kDescriptorsPerConnection = 6;

// A connection is reset if this number of endpoints did not accept it.
inline constexpr size_t kMaxConnectAttempts = 3;
inline constexpr std::chrono::milliseconds kConnectTimeout{5000};

// Maximum number of bytes in a pipe, which is the default capacity of a pipe.
inline constexpr size_t kPipeBytes = 64 << 10;
// After this number of transfers in a row, a connection waits until the other connections have
// had their turn.
inline constexpr int kTransfersInARow = 16;

// Minimum time between two log lines about connections that are reset because of the limit.
inline constexpr std::chrono::seconds kRejectionLogInterval{60};

// Copies the data of one direction of a TCP connection from one socket to another socket with
// splice(2), through a pipe. The data stays in the kernel. The source is read only when the pipe is
// empty, so a slow receiver slows down the sender.
class Transfer {
 public:
  enum class Result : uint8_t {
    kWaiting,  // The source has no data, or the target accepts no data.
    kMore,     // Stopped after kTransfersInARow transfers. Call Move again.
    kDone,     // The source has closed its direction, and the target has all data.
    kFailed,   // A socket has failed. The connection must be reset.
  };

  absl::Status Open();  // Creates the pipe.

  // Copies data until a socket would block. Forwards the end of the data as a half-close.
  Result Move(int source, int target);

 private:
  UniqueFd read_end_;
  UniqueFd write_end_;
  size_t held_ = 0;  // Number of bytes in the pipe.
  bool ended_ = false;
};

void ResetWhenClosed(const UniqueFd& socket);  // The kernel sends a TCP RST on close.

// A connection to a nodePort on a loopback address, forwarded to an endpoint. If the endpoint
// refuses the connection or does not answer in time, tries other endpoints. Each side can close its
// direction of the connection (half-close). If one side resets its connection, the other side is
// reset too. Established connections have no timeout, but TCP keepalive detects an endpoint that no
// longer exists.
class ForwardedConnection {
 public:
  // The limit for each attempt to connect is `connect_timeout`. `random` returns a number that is
  // uniformly distributed over all values. Calls `on_end` once, after the sockets are closed.
  // `on_end` must not destroy the connection.
  ForwardedConnection(event_base* base, UniqueFd client,
                      std::shared_ptr<proxy::EndpointPicker> picker,
                      std::chrono::milliseconds connect_timeout, std::function<uint64_t()> random,
                      std::function<void()> on_end);

  void Start();

 private:
  void TryNextEndpoint();
  bool Connect(const proxy::EndpointAddress& endpoint);
  void OnTimer();
  void OnClient();
  void OnEndpoint();
  void Establish();
  void Move();
  void Reset();
  void End();

  event_base* base_;
  UniqueFd client_;
  UniqueFd endpoint_;  // Closed between two attempts to connect.
  const std::shared_ptr<proxy::EndpointPicker> picker_;
  const std::chrono::milliseconds connect_timeout_;
  const std::function<uint64_t()> random_;
  const std::function<void()> on_end_;
  std::vector<proxy::EndpointAddress> tried_;
  bool established_ = false;
  bool ended_ = false;
  Transfer to_endpoint_;
  Transfer to_client_;
  Event client_ready_;
  std::optional<Event> endpoint_ready_;
  // Times out the attempt to connect, starts the next attempt, or continues a transfer.
  Event timer_;
};

}  // namespace svcmap::api
