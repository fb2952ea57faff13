// Sends large amounts of data through a flow and back, and compares every byte. The servers are
// EchoServers.
#pragma once

#include <chrono>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/answer.h"
#include "tests/support/client.h"
#include "tests/support/netns.h"
#include "tests/support/wait.h"

namespace svcmap::testing {

// An open TCP connection, for tests that change the Service while the connection is open. Not
// thread-safe. The calling thread need not be in the namespace. Closing a TcpFlow resets its
// connection.
class TcpFlow {
 public:
  // Opens a connection. Returns Unavailable with the text of the answer if the server is not
  // reachable.
  static absl::StatusOr<TcpFlow> Open(const NetNs& netns, const Request& request);

  // Returns the name of the connection's server and the source address that the server received.
  const Answer& answer() const { return answer_; }

  // Sends `bytes` pseudo-random bytes and reads the echo at the same time. Returns DataLoss with
  // the offset of the first wrong byte. DeadlineExceeded and Unavailable mean that the flow is
  // stuck or broken.
  absl::Status Exchange(size_t bytes, std::chrono::milliseconds timeout = kHangLimit);

 private:
  TcpFlow(UniqueFd fd, Answer answer) : fd_(std::move(fd)), answer_(std::move(answer)) {}
  UniqueFd fd_;
  Answer answer_;
};

// Sends `bytes` in both directions over a new TCP connection within `request.timeout`.
absl::StatusOr<Answer> BulkTcp(const NetNs& netns, const Request& request, size_t bytes);

// Sends one UDP datagram of `bytes` (at most 65,507), fragmented if needed, and receives the echo.
absl::Status BigUdp(const NetNs& netns, const Request& request, size_t bytes);

}  // namespace svcmap::testing
