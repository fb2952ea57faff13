#include "api/cli/http_get.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "nft/base/status.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {
namespace {

using SteadyClock = std::chrono::steady_clock;

absl::Status Await(const UniqueFd& fd, short events, SteadyClock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
  pollfd poll_fd = {.fd = fd.get(), .events = events, .revents = 0};
  const int ready = TEMP_FAILURE_RETRY(poll(&poll_fd, 1, left > 0 ? static_cast<int>(left) : 0));
  return ready > 0 ? absl::OkStatus() : absl::DeadlineExceededError("timed out");
}

absl::StatusOr<UniqueFd> Connect(const std::string& address, SteadyClock::time_point deadline) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError("Invalid value: " + Quote(address) + ": must be HOST:PORT");
  }
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &list);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  UniqueFd fd(socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return ErrnoStatus(errno, "open socket");
  if (connect(fd.get(), list->ai_addr, list->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return ErrnoStatus(errno, "connect");
  }
  if (const absl::Status status = Await(fd, POLLOUT, deadline); !status.ok()) return status;
  int failure = 0;
  socklen_t size = sizeof(failure);
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure != 0) return ErrnoStatus(failure, "connect");
  return fd;
}

absl::StatusOr<std::string> Exchange(const std::string& address, const std::string& path,
                                     SteadyClock::time_point deadline) {
  absl::StatusOr<UniqueFd> fd = Connect(address, deadline);
  if (!fd.ok()) return fd.status();
  // The server closes HTTP/1.0 connections after the response.
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: ", address, "\r\nConnection: close\r\n\r\n");
  if (send(fd->get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return ErrnoStatus(errno, "send");
  }
  std::string response;
  char buffer[65536];
  for (;;) {
    if (const absl::Status status = Await(*fd, POLLIN, deadline); !status.ok()) return status;
    const ssize_t size = recv(fd->get(), buffer, sizeof(buffer), 0);
    if (size < 0) return ErrnoStatus(errno, "receive");
    if (size == 0) break;
    response.append(buffer, static_cast<size_t>(size));
  }
  const size_t end = response.find("\r\n\r\n");
  if (end == std::string::npos || !response.starts_with("HTTP/1.")) {
    return absl::UnavailableError("the response is not HTTP");
  }
  const std::string status = response.substr(9, response.find("\r\n") - 9);
  if (!status.starts_with("200")) return absl::UnavailableError("HTTP status " + status);
  return response.substr(end + 4);
}

}  // namespace

absl::StatusOr<std::string> HttpGet(const std::string& address, const std::string& path,
                                    std::chrono::milliseconds timeout) {
  absl::StatusOr<std::string> body = Exchange(address, path, SteadyClock::now() + timeout);
  if (body.ok()) return body;
  return Annotate(body.status(), absl::StrCat("read http://", address, path));
}

}  // namespace svcmap::api
