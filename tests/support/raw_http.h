// A minimal HTTP client with which a test controls every sent byte and inspects every received
// byte. Calls are blocking, with a deadline for each step. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/netns.h"
#include "tests/support/wait.h"

namespace svcmap::testing {

struct HttpAnswer {
  int code = 0;
  // Headers by name, spelled as received. If a header is repeated, the last value is kept.
  std::map<std::string, std::string> headers;
  std::string body;
};

class RawConnection {
 public:
  // Connects to the port. Returns Unavailable if the port is closed.
  static absl::StatusOr<RawConnection> Open(const NetNs& netns, const std::string& ip,
                                            uint16_t port);

  absl::Status Send(std::string_view bytes);
  // Returns the next response, or OutOfRange if the server closes the connection. `head` is true
  // for a response to a HEAD request, which has no body regardless of its headers.
  absl::StatusOr<HttpAnswer> Read(bool head = false);
  // Returns OK when the server has closed the connection. Discards the remaining data.
  absl::Status WaitForEnd(std::chrono::milliseconds timeout = kHangLimit);

  int fd() const { return fd_.get(); }

 private:
  explicit RawConnection(UniqueFd fd) : fd_(std::move(fd)) {}
  absl::Status Receive(std::chrono::milliseconds timeout);

  UniqueFd fd_;
  std::string received_;
};

// Sends one request on a new connection and returns the response.
absl::StatusOr<HttpAnswer> HttpRequest(const NetNs& netns, const std::string& ip, uint16_t port,
                                       const std::string& path, const std::string& method = "GET");

}  // namespace svcmap::testing
