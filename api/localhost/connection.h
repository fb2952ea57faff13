// A connection to a nodePort on a loopback address, forwarded to an endpoint. If the endpoint
// refuses the connection or does not answer in time, tries other endpoints. Each side can close its
// direction of the connection (half-close). If one side resets its connection, the other side is
// reset too. Established connections have no timeout, but TCP keepalive detects an endpoint that no
// longer exists.
//
// Used only on the thread of the event loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "api/health/event.h"
#include "api/localhost/transfer.h"
#include "nft/base/unique_fd.h"
#include "proxy/localhost/nodeports.h"

namespace svcmap::api {

void ResetWhenClosed(const UniqueFd& socket);  // The kernel sends a TCP RST on close.

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
