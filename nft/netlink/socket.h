// A netlink socket, non-blocking underneath, with a deadline on every answer.
#pragma once

#include <linux/netlink.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "nft/netlink/socket_faults.h"

namespace svcmap::nft {

class Socket {
 public:
  // `protocol` is NETLINK_NETFILTER or NETLINK_ROUTE; the network namespace is the calling
  // thread's. `faults` may be null and must outlive the socket.
  static absl::StatusOr<Socket> Open(int protocol, SocketFaults* faults = nullptr);

  int fd() const { return fd_.get(); }
  uint32_t port_id() const { return port_id_; }  // Names this socket in notifications.

  absl::Status Send(std::span<const uint8_t> bytes);

  // Makes room for a message of `bytes`: past net.core.wmem_max only with CAP_NET_ADMIN in the
  // initial user namespace.
  absl::Status EnsureSendBuffer(size_t bytes);
  void RequestReceiveBuffer(size_t bytes);  // Best effort.

  // Notifications of a group come as datagrams; what was queued stays after leaving.
  absl::Status JoinGroup(int group);
  void LeaveGroup(int group);

  // The next datagram; empty after `timeout`. ENOBUFS (messages were lost) is kResourceExhausted.
  absl::StatusOr<std::span<const uint8_t>> Receive(std::chrono::milliseconds timeout);

 private:
  int SetOption(int level, int option, int value);  // An errno, or 0.

  // Whether a datagram of `size` bytes that was read is handed out now.
  absl::StatusOr<bool> Deliver(size_t size);

  UniqueFd fd_;
  uint32_t port_id_ = 0;
  size_t send_buffer_ = 0;
  std::vector<uint8_t> receive_buffer_;

  SocketFaults* faults_ = nullptr;
  std::vector<uint8_t> late_;  // Injected: to be handed out after the next timeout.
  std::vector<uint8_t> next_;  // Injected: to be handed out by the next call.
};

}  // namespace svcmap::nft
