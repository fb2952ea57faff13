// Moves many bytes through a flow and back, and checks every one. The servers of EchoServer return
// what they get.
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

// An open TCP connection, to see whether it survives what happens to its Service. For one thread at
// a time, which need not be in the namespace. Closing resets the connection.
class TcpFlow {
 public:
  // Unavailable, with the answer's text, if the server could not be reached.
  static absl::StatusOr<TcpFlow> Open(const NetNs& netns, const Request& request);

  // Who took the connection, and the source it saw.
  const Answer& answer() const { return answer_; }

  // Sends `bytes` pseudo-random bytes while reading them back. DataLoss names the first wrong
  // offset; DeadlineExceeded and Unavailable mean the flow is stuck or broken.
  absl::Status Exchange(size_t bytes, std::chrono::milliseconds timeout = std::chrono::seconds(10));

 private:
  TcpFlow(UniqueFd fd, Answer answer) : fd_(std::move(fd)), answer_(std::move(answer)) {}
  UniqueFd fd_;
  Answer answer_;
};

// A TCP connection of its own that carries `bytes` both ways. `request.timeout` is for all of it.
absl::StatusOr<Answer> BulkTcp(const NetNs& netns, const Request& request, size_t bytes);

// One UDP datagram of `bytes` (at most 65,507), fragmented as needed, and its echo.
absl::Status BigUdp(const NetNs& netns, const Request& request, size_t bytes);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_SUPPORT_TRANSFER_H_
