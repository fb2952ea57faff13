#include "tests/support/raw_http.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/support/socket_address.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

// A test sends to a server that stops reading, until the send fails.
constexpr std::chrono::seconds kSendLimit{10};

absl::Status WaitFor(int fd, short events, std::chrono::milliseconds timeout) {
  pollfd waiting = {fd, events, 0};
  const int ready = ::poll(&waiting, 1, static_cast<int>(timeout.count()));
  if (ready > 0) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("nothing happened for ", timeout.count(), " ms"));
}

}  // namespace

absl::StatusOr<RawConnection> RawConnection::Open(const NetNs& netns, const std::string& ip,
                                                  uint16_t port) {
  const absl::StatusOr<SocketAddress> to = SocketAddress::Parse(ip, port);
  if (!to.ok()) return to.status();
  UniqueFd fd =
      netns.Run([&] { return UniqueFd(::socket(to->family(), SOCK_STREAM | SOCK_CLOEXEC, 0)); });
  if (!fd.ok()) return absl::ErrnoToStatus(errno, "socket");
  if (::connect(fd.get(), to->get(), to->size()) != 0) {
    return absl::UnavailableError(absl::StrCat("connect to ", ip, " port ", port, ": ", errno));
  }
  return RawConnection(std::move(fd));
}

absl::Status RawConnection::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno != EAGAIN) {
      return absl::ErrnoToStatus(errno, "send");
    } else if (const absl::Status ready = WaitFor(fd_.get(), POLLOUT, kSendLimit); !ready.ok()) {
      return ready;
    }
  }
  return absl::OkStatus();
}

absl::Status RawConnection::Receive(std::chrono::milliseconds timeout) {
  if (const absl::Status ready = WaitFor(fd_.get(), POLLIN, timeout); !ready.ok()) return ready;
  char buffer[4096];
  const ssize_t size = ::recv(fd_.get(), buffer, sizeof(buffer), 0);
  if (size <= 0) return absl::OutOfRangeError("the other side has closed");
  received_.append(buffer, static_cast<size_t>(size));
  return absl::OkStatus();
}

absl::StatusOr<HttpAnswer> RawConnection::Read(bool head) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  size_t end = std::string::npos;
  while ((end = received_.find(kEnd)) == std::string::npos) {
    if (const absl::Status status = Receive(kHangLimit); !status.ok()) return status;
  }
  HttpAnswer answer;
  std::string_view text = std::string_view(received_).substr(0, end);
  if (!absl::SimpleAtoi(std::string(text.substr(text.find(' ') + 1, 3)), &answer.code)) {
    return absl::InternalError(absl::StrCat("no status: ", received_));
  }
  while (text.find('\n') != std::string_view::npos) {
    text.remove_prefix(text.find('\n') + 1);
    const std::string_view line = text.substr(0, text.find('\r'));
    const size_t colon = line.find(": ");
    if (colon == std::string_view::npos) {
      return absl::InternalError(absl::StrCat("no header: ", received_));
    }
    answer.headers[std::string(line.substr(0, colon))] = line.substr(colon + 2);
  }
  received_.erase(0, end + kEnd.size());
  size_t length = 0;
  if (!head && !absl::SimpleAtoi(answer.headers["Content-Length"], &length)) {
    return absl::InternalError("no Content-Length");
  }
  while (received_.size() < length) {
    if (const absl::Status status = Receive(kHangLimit); !status.ok()) return status;
  }
  answer.body = received_.substr(0, length);
  received_.erase(0, length);
  return answer;
}

absl::Status RawConnection::WaitForEnd(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    const absl::Status status = Receive(std::max(left, std::chrono::milliseconds(0)));
    if (absl::IsOutOfRange(status)) return absl::OkStatus();
    if (!status.ok()) return status;
    received_.clear();
  }
}

absl::StatusOr<HttpAnswer> HttpRequest(const NetNs& netns, const std::string& ip, uint16_t port,
                                       const std::string& path, const std::string& method) {
  absl::StatusOr<RawConnection> connection = RawConnection::Open(netns, ip, port);
  if (!connection.ok()) return connection.status();
  const absl::Status sent = connection->Send(
      absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"));
  if (!sent.ok()) return sent;
  return connection->Read(method == "HEAD");
}

}  // namespace svcmap::testing
