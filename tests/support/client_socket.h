// Socket operations of Ask, Ping and the bulk transfers. Internal to tests/support.
//
// All functions use non-blocking sockets and poll until a deadline. Functions that create a socket
// must be called by a thread in the network namespace.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/client.h"
#include "tests/support/socket_address.h"

namespace svcmap::testing::client_internal {

using Clock = std::chrono::steady_clock;

// Waits for one of `events`. Returns true after an event, an error or a hangup, and false at the
// deadline.
bool WaitFor(int fd, short events, Clock::time_point deadline);

// Sends `payload` on a connected datagram or raw socket and waits for a message for which
// `accept(message, &answer)` returns true. Ignores messages for which `accept` returns false, and
// converts errors to answers.
template <typename Accept>
Answer Exchange(int fd, const std::string& payload, Clock::time_point deadline, Accept accept);

// Opens a TCP connection and reads the server's line. Bytes after the line stay in the socket.
// Stores the socket in `fd`, which resets the connection when it is closed.
Answer OpenTcp(const Request& request, const SocketAddress& destination, UniqueFd& fd);

// Connects a datagram or raw socket, so that the kernel delivers only packets and errors from this
// destination.
absl::StatusOr<UniqueFd> Connected(const Request& request, const SocketAddress& destination,
                                   int type, int protocol, bool port);

// Returns an answer with this error.
Answer Failed(const absl::Status& status);

// One received message. Internal to Exchange.
struct Received {
  bool done;  // True if `answer` is final.
  Answer answer;
  std::string message;
};
Answer SendOnce(int fd, const std::string& payload,
                Clock::time_point deadline);  // Returns kAnswered if the payload was sent.
Received ReceiveOne(int fd, Clock::time_point deadline);

template <typename Accept>
Answer Exchange(int fd, const std::string& payload, Clock::time_point deadline, Accept accept) {
  Answer answer = SendOnce(fd, payload, deadline);
  if (answer.outcome != Outcome::kAnswered) return answer;
  for (;;) {
    Received received = ReceiveOne(fd, deadline);
    if (received.done) return received.answer;
    if (accept(received.message, &answer)) return answer;
  }
}

}  // namespace svcmap::testing::client_internal
