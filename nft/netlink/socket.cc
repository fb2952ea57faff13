#include "nft/netlink/socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "nft/base/status.h"

namespace svcmap::nft {
namespace {

constexpr size_t kReceiveSize = 64 * 1024;  // A datagram of a dump has at most 32 KiB.
constexpr size_t kSendOverhead = 4096;      // Kernel overhead per message in the socket buffer.
// About INT_MAX / 2, because the kernel doubles the buffer size.
constexpr size_t kMaxSendBuffer = size_t{1} << 30;

}  // namespace

absl::StatusOr<Socket> Socket::Open(int protocol, SocketFaults* faults) {
  Socket socket;
  socket.faults_ = faults;
  if (const int error = faults != nullptr ? faults->OnOpen(protocol) : 0; error != 0) {
    return ErrnoStatus(error, "open netlink socket");
  }
  socket.fd_ = UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  if (!socket.fd_.ok()) return ErrnoStatus(errno, "open netlink socket");
  // With these options, errors include the offset of the invalid attribute, but no copy of the
  // request. The socket also works if the kernel does not support these options.
  socket.SetOption(SOL_NETLINK, NETLINK_EXT_ACK, 1);
  socket.SetOption(SOL_NETLINK, NETLINK_CAP_ACK, 1);

  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  if (bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus(errno, "bind netlink socket");
  }
  socklen_t length = sizeof(address);
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return ErrnoStatus(errno, "read netlink socket's port id");
  }
  socket.port_id_ = address.nl_pid;
  socket.receive_buffer_.resize(kReceiveSize);
  return socket;
}

int Socket::SetOption(int level, int option, int value) {
  return SetOption(level, option, &value, sizeof(value));
}

int Socket::SetOption(int level, int option, const void* value, socklen_t size) {
  if (const int error = faults_ != nullptr ? faults_->OnSetOption(option) : 0; error != 0) {
    return error;
  }
  return setsockopt(fd(), level, option, value, size) == 0 ? 0 : errno;
}

absl::Status Socket::JoinGroup(int group) {
  const int error = SetOption(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "join a netlink group");
}

void Socket::LeaveGroup(int group) { SetOption(SOL_NETLINK, NETLINK_DROP_MEMBERSHIP, group); }

absl::Status Socket::SetFilter(std::span<sock_filter> filter) {
  const sock_fprog program = {static_cast<uint16_t>(filter.size()), filter.data()};
  const int error = SetOption(SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "set a filter for netlink messages");
}

absl::Status Socket::SetStrictChecking() {
  const int error = SetOption(SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "request filtered netlink dumps");
}

absl::Status Socket::EnsureSendBuffer(size_t bytes) {
  const size_t wanted = bytes + kSendOverhead;
  if (wanted <= send_buffer_) return absl::OkStatus();
  if (wanted > kMaxSendBuffer) {
    return ErrnoStatus(EMSGSIZE, "batch of " + std::to_string(bytes) + " bytes");
  }
  const int value = static_cast<int>(wanted);
  if (SetOption(SOL_SOCKET, SO_SNDBUFFORCE, value) != 0) SetOption(SOL_SOCKET, SO_SNDBUF, value);
  int got = 0;
  socklen_t length = sizeof(got);
  getsockopt(fd(), SOL_SOCKET, SO_SNDBUF, &got, &length);
  send_buffer_ = static_cast<size_t>(got);
  if (wanted <= send_buffer_) return absl::OkStatus();
  return ErrnoStatus(EMSGSIZE, "batch of " + std::to_string(bytes) + " bytes, send buffer of " +
                                   std::to_string(got) +
                                   " (raise net.core.wmem_max or run with CAP_NET_ADMIN)");
}

void Socket::RequestReceiveBuffer(size_t bytes) {
  const int value = static_cast<int>(bytes);
  if (SetOption(SOL_SOCKET, SO_RCVBUFFORCE, value) != 0) SetOption(SOL_SOCKET, SO_RCVBUF, value);
}

absl::Status Socket::Send(std::span<const uint8_t> bytes) {
  sockaddr_nl kernel = {};
  kernel.nl_family = AF_NETLINK;
  if (const int error = faults_ != nullptr ? faults_->OnSend(port_id_, bytes) : 0; error != 0) {
    return ErrnoStatus(error, "send to netlink");
  }
  for (;;) {
    const ssize_t sent = sendto(fd(), bytes.data(), bytes.size(), 0,
                                reinterpret_cast<sockaddr*>(&kernel), sizeof(kernel));
    if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
    if (sent >= 0) return absl::InternalError("netlink accepted only part of a message");
    if (errno != EINTR) return ErrnoStatus(errno, "send to netlink");
  }
}

absl::StatusOr<bool> Socket::Deliver(size_t size) {
  if (faults_ == nullptr) return true;
  const std::span<const uint8_t> datagram(receive_buffer_.data(), size);
  const SocketFaults::Receipt receipt = faults_->OnReceive(port_id_, datagram);
  if (receipt.error != 0) return ErrnoStatus(receipt.error, "receive from netlink");
  if (receipt.late) late_.assign(datagram.begin(), datagram.end());
  if (receipt.twice) next_.assign(datagram.begin(), datagram.end());
  return !receipt.drop && !receipt.late;
}

absl::StatusOr<std::span<const uint8_t>> Socket::Receive(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  if (!next_.empty()) {
    std::copy(next_.begin(), next_.end(), receive_buffer_.begin());
    const size_t size = next_.size();
    next_.clear();
    return std::span<const uint8_t>(receive_buffer_.data(), size);
  }
  for (;;) {
    const ssize_t size = recv(fd(), receive_buffer_.data(), receive_buffer_.size(), MSG_TRUNC);
    if (size > static_cast<ssize_t>(receive_buffer_.size())) {
      receive_buffer_.resize(static_cast<size_t>(size));
      return ErrnoStatus(ENOBUFS, "receive from netlink: message truncated");
    }
    if (size >= 0) {
      const absl::StatusOr<bool> delivered = Deliver(static_cast<size_t>(size));
      if (!delivered.ok()) return delivered.status();
      if (!*delivered) continue;
      return std::span<const uint8_t>(receive_buffer_.data(), static_cast<size_t>(size));
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return ErrnoStatus(errno, "receive from netlink");
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      if (!late_.empty()) next_.swap(late_);
      return std::span<const uint8_t>();
    }
    pollfd waiting = {fd(), POLLIN, 0};
    poll(&waiting, 1, static_cast<int>(left.count()));
  }
}

}  // namespace svcmap::nft
