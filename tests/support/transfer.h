// Sends many bytes through a flow and back, and checks every byte. Uses the servers of EchoServer.
#ifndef SVCMAP_TESTS_SUPPORT_TRANSFER_H_
#define SVCMAP_TESTS_SUPPORT_TRANSFER_H_

#include <chrono>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/answer.h"
#include "tests/support/client.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

// An open TCP connection, for tests of its survival when its Service changes. Not thread-safe. The
// thread need not be in the namespace. Closing resets the connection.
class TcpFlow {
 public:
  // Unavailable, with the answer's text, if the server could not be reached.
  static absl::StatusOr<TcpFlow> Open(const NetNs& netns, const Request& request);

  // The server of the connection, and the source address that it received.
  const Answer& answer() const { return answer_; }

  // Sends `bytes` pseudo-random bytes while reading them back. DataLoss names the first wrong
  // offset; DeadlineExceeded and Unavailable mean the flow is stuck or broken.
  absl::Status Exchange(size_t bytes, std::chrono::milliseconds timeout = std::chrono::seconds(10));

 private:
  TcpFlow(UniqueFd fd, Answer answer) : fd_(std::move(fd)), answer_(std::move(answer)) {}
  UniqueFd fd_;
  Answer answer_;
};

// Sends `bytes` in both directions over a new TCP connection within `request.timeout`.
absl::StatusOr<Answer> BulkTcp(const NetNs& netns, const Request& request, size_t bytes);

// One UDP datagram of `bytes` (at most 65,507), fragmented as needed, and its echo.
absl::Status BigUdp(const NetNs& netns, const Request& request, size_t bytes);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_SUPPORT_TRANSFER_H_
