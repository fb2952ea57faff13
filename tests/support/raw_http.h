// HTTP by hand, so that a test decides about every byte that is sent and sees every byte that comes
// back. Blocking, with a deadline for each step; not thread-safe.
#ifndef SVCMAP_TESTS_SUPPORT_RAW_HTTP_H_
#define SVCMAP_TESTS_SUPPORT_RAW_HTTP_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

struct HttpAnswer {
  int code = 0;
  std::map<std::string, std::string> headers;  // Names as they were sent; the last of each.
  std::string body;
};

class RawConnection {
 public:
  // Returns Unavailable if the port is closed.
  static absl::StatusOr<RawConnection> Open(const NetNs& netns, const std::string& ip,
                                            uint16_t port);

  absl::Status Send(std::string_view bytes);
  // The next answer. `head`: it has no body whatever it says. OutOfRange if the other side closes.
  absl::StatusOr<HttpAnswer> Read(bool head = false);
  // OK once the other side has closed; what it still sent is forgotten.
  absl::Status WaitForEnd(std::chrono::milliseconds timeout = std::chrono::seconds(10));

  int fd() const { return fd_.get(); }

 private:
  explicit RawConnection(UniqueFd fd) : fd_(std::move(fd)) {}
  absl::Status Receive(std::chrono::milliseconds timeout);

  UniqueFd fd_;
  std::string received_;
};

// One request on a connection of its own.
absl::StatusOr<HttpAnswer> HttpRequest(const NetNs& netns, const std::string& ip, uint16_t port,
                                       const std::string& path, const std::string& method = "GET");

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_SUPPORT_RAW_HTTP_H_
