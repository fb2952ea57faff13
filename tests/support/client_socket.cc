#include "tests/support/client_socket.h"

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

namespace svcmap::testing::client_internal {
namespace {

Answer TimedOut(const std::string& detail) {
  Answer answer;
  answer.outcome = Outcome::kTimedOut;
  answer.detail = detail;
  return answer;
}

// Adds the ICMP error from the socket's error queue to `answer`. Must be called after a socket
// error, when the kernel has already filled the queue. An empty queue leaves `answer` unchanged.
void AddIcmpError(int fd, Answer* answer) {
  char control[512];
  char data[64];
  iovec vector = {data, sizeof(data)};
  msghdr message = {};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (::recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    const bool v4 = header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_RECVERR;
    const bool v6 = header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_RECVERR;
    if (!v4 && !v6) continue;
    sock_extended_err error;
    std::memcpy(&error, CMSG_DATA(header), sizeof(error));
    if (error.ee_origin != SO_EE_ORIGIN_ICMP && error.ee_origin != SO_EE_ORIGIN_ICMP6) continue;
    answer->icmp_type = error.ee_type;
    answer->icmp_code = error.ee_code;
    // The sockaddr after the error (SO_EE_OFFENDER) has the address family of the socket.
    SocketAddress from;
    std::memcpy(
        from.out(), CMSG_DATA(header) + sizeof(error),
        std::min<size_t>(header->cmsg_len - CMSG_LEN(sizeof(error)), SocketAddress::kCapacity));
    answer->icmp_from = from.ip();
  }
}

int PendingError(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

void Enable(int fd, int level, int option) {
  const int on = 1;
  ::setsockopt(fd, level, option, &on, sizeof(on));
}

// Creates a non-blocking socket with extended errors, and binds it to the request's source. `port`
// is false for raw sockets.
absl::StatusOr<UniqueFd> MakeSocket(const Request& request, int family, int type, int protocol,
                                    bool port) {
  UniqueFd fd(::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, "socket");
  if (family == AF_INET6) {
    Enable(fd.get(), IPPROTO_IPV6, IPV6_RECVERR);
  } else {
    Enable(fd.get(), IPPROTO_IP, IP_RECVERR);
  }
  const uint16_t source_port = port ? request.source_port : 0;
  if (request.source.empty() && source_port == 0) return fd;

  const std::string any = family == AF_INET6 ? "::" : "0.0.0.0";
  absl::StatusOr<SocketAddress> source =
      SocketAddress::Parse(request.source.empty() ? any : request.source, source_port);
  if (!source.ok()) return source.status();
  Enable(fd.get(), SOL_SOCKET, SO_REUSEADDR);
  if (source_port == 0 && type == SOCK_STREAM)
    Enable(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT);
  if (::bind(fd.get(), source->get(), source->size()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("bind to ", source->ip(), " ", source_port));
  }
  return fd;
}

// Converts `error` (errno of connect, send or recv) and the ICMP error from the socket's error
// queue to an Answer.
Answer FromErrno(int fd, int error) {
  if (error == EAGAIN || error == ETIMEDOUT) return TimedOut(error == EAGAIN ? "" : "ETIMEDOUT");
  Answer answer;
  answer.outcome = error == ECONNREFUSED ? Outcome::kRejected : Outcome::kOther;
  AddIcmpError(fd, &answer);
  // A raw ICMPv6 socket reports EACCES or EPROTO for some ICMP codes. A "port unreachable" error
  // always counts as a rejection.
  if (answer.PortUnreachable()) answer.outcome = Outcome::kRejected;
  answer.detail = std::strerror(error);
  return answer;
}

// Connects the socket. Returns kAnswered (without a server) when the connection is established.
Answer ConnectTcp(int fd, const SocketAddress& destination, Clock::time_point deadline) {
  if (::connect(fd, destination.get(), destination.size()) != 0) {
    if (errno != EINPROGRESS) return FromErrno(fd, errno);
    if (!WaitFor(fd, POLLOUT, deadline)) return TimedOut("connect");
    const int error = PendingError(fd);
    if (error != 0) return FromErrno(fd, error);
  }
  Answer answer;
  answer.outcome = Outcome::kAnswered;
  return answer;
}

// Reads the server's line from a connected stream.
Answer ReadLine(int fd, Clock::time_point deadline) {
  std::string line;
  for (;;) {
    if (!WaitFor(fd, POLLIN, deadline)) return TimedOut("connected, but no answer");
    char buffer[256];
    ssize_t count = ::recv(fd, buffer, sizeof(buffer), MSG_PEEK);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) {
      Answer answer;
      answer.detail =
          absl::StrCat("connected, then ", count == 0 ? "closed" : std::strerror(errno));
      return answer;
    }
    const void* end = std::memchr(buffer, '\n', static_cast<size_t>(count));
    if (end != nullptr) count = static_cast<const char*>(end) - buffer + 1;
    ::recv(fd, buffer, static_cast<size_t>(count), 0);
    line.append(buffer, static_cast<size_t>(count));
    if (end == nullptr) continue;
    Answer answer;
    if (!ParseAnswerLine(line, &answer)) answer.detail = absl::StrCat("unexpected answer: ", line);
    return answer;
  }
}

}  // namespace

bool WaitFor(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry = {fd, events, 0};
    const int ready = ::poll(&entry, 1, left < 0 ? 0 : static_cast<int>(left));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return false;
  }
}

Answer SendOnce(int fd, const std::string& payload, Clock::time_point deadline) {
  const ssize_t sent = ::send(fd, payload.data(), payload.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(payload.size())) {
    Answer answer;
    answer.outcome = Outcome::kAnswered;
    return answer;
  }
  const int error = sent < 0 ? errno : EMSGSIZE;
  Answer answer;
  if (error != EPERM) {
    answer = FromErrno(fd, error);
  } else if (WaitFor(fd, 0, deadline)) {
    // The output hook of this host dropped or rejected the packet. An ICMP error follows a reject,
    // but not a drop.
    const int pending = PendingError(fd);
    answer = FromErrno(fd, pending == 0 ? ECONNREFUSED : pending);
  } else {
    answer = TimedOut("EPERM when sending, no ICMP error");
  }
  answer.send_error = error;
  return answer;
}

Received ReceiveOne(int fd, Clock::time_point deadline) {
  if (!WaitFor(fd, POLLIN, deadline)) return {true, TimedOut(""), ""};
  std::string message(65536, '\0');
  const ssize_t count = ::recv(fd, message.data(), message.size(), 0);
  if (count >= 0) {
    message.resize(static_cast<size_t>(count));
    return {false, Answer(), std::move(message)};
  }
  if (errno == EAGAIN || errno == EINTR) {
    // The socket itself has no error. poll returned because the error queue has an entry.
    const int pending = PendingError(fd);
    Answer answer = FromErrno(fd, pending == 0 ? EAGAIN : pending);
    if (pending == 0) return {false, Answer(), ""};
    return {true, std::move(answer), ""};
  }
  return {true, FromErrno(fd, errno), ""};
}

Answer Failed(const absl::Status& status) {
  Answer answer;
  answer.detail = status.ToString();
  return answer;
}

absl::StatusOr<UniqueFd> Connected(const Request& request, const SocketAddress& destination,
                                   int type, int protocol, bool port) {
  absl::StatusOr<UniqueFd> fd = MakeSocket(request, destination.family(), type, protocol, port);
  if (!fd.ok()) return fd;
  if (::connect(fd->get(), destination.get(), destination.size()) != 0) {
    return absl::ErrnoToStatus(errno, "connect");
  }
  return fd;
}

Answer OpenTcp(const Request& request, const SocketAddress& destination, UniqueFd& fd) {
  const Clock::time_point deadline = Clock::now() + request.timeout;
  absl::StatusOr<UniqueFd> made =
      MakeSocket(request, destination.family(), SOCK_STREAM, 0, /*port=*/true);
  if (!made.ok()) return Failed(made.status());
  fd = *std::move(made);
  const linger reset = {1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  Answer answer = ConnectTcp(fd.get(), destination, deadline);
  answer.tcp = true;
  return answer.outcome == Outcome::kAnswered ? ReadLine(fd.get(), deadline) : answer;
}

}  // namespace svcmap::testing::client_internal
