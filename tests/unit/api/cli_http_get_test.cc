// Tests of the HTTP client against a server on a loopback socket.
#include "api/cli/http_get.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "nft/base/unique_fd.h"
#include "tests/support/status_matchers.h"

namespace svcmap::api {
namespace {

// Answers one request with `head`, and then `repeats` times with `chunk`, until the client closes
// the connection.
class OneAnswer {
 public:
  OneAnswer(std::string head, std::string chunk, int repeats)
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(at.sin_port));
    thread_ = std::thread([this, head = std::move(head), chunk = std::move(chunk), repeats] {
      const UniqueFd client(accept(listener_.get(), nullptr, nullptr));
      char request[4096];
      if (recv(client.get(), request, sizeof(request), 0) <= 0) return;
      bool connected = Send(client, head);
      for (int i = 0; connected && i < repeats; ++i) connected = Send(client, chunk);
    });
  }
  ~OneAnswer() { thread_.join(); }

  const std::string& address() const { return address_; }

 private:
  static bool Send(const UniqueFd& to, std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = send(to.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  UniqueFd listener_;
  std::string address_;
  std::thread thread_;
};

constexpr std::chrono::seconds kTimeout(60);

TEST(HttpGetTest, ReturnsTheBody) {
  const OneAnswer server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "hello", 1);
  ASSERT_OK_AND_ASSIGN(const std::string body, HttpGet(server.address(), "/metrics", kTimeout));
  EXPECT_EQ(body, "hello");
}

TEST(HttpGetTest, ARedirectIsNotFollowed) {
  const OneAnswer server(
      "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
      "Content-Length: 0\r\n\r\n",
      "", 0);
  const absl::StatusOr<std::string> body = HttpGet(server.address(), "/metrics", kTimeout);
  EXPECT_EQ(std::string(body.status().message()),
            absl::StrCat("read http://", server.address(), "/metrics: HTTP status 302"));
}

TEST(HttpGetTest, ABodyWithoutEndIsRejected) {
  const OneAnswer server("HTTP/1.1 200 OK\r\n\r\n", std::string(size_t{1} << 20, 'x'), 200);
  const absl::StatusOr<std::string> body = HttpGet(server.address(), "/metrics", kTimeout);
  EXPECT_EQ(body.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(body.status().message()),
            absl::StrCat("read http://", server.address(),
                         "/metrics: Too large: must have at most 128 MiB, and 1 MiB of headers"));
}

TEST(HttpGetTest, TrailersWithoutEndAreRejected) {
  const OneAnswer server("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
                         absl::StrCat("X-Trailer: ", std::string(1000, 'x'), "\r\n"), 100000);
  const absl::StatusOr<std::string> body = HttpGet(server.address(), "/metrics", kTimeout);
  EXPECT_EQ(body.status().code(), absl::StatusCode::kResourceExhausted) << body.status();
}

}  // namespace
}  // namespace svcmap::api
