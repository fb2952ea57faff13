// A non-blocking netlink socket with a timeout for each response.
#pragma once

#include <linux/filter.h>
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

// Maximum time between a request and the first message of its answer.
inline constexpr std::chrono::milliseconds kAnswerTimeout{5000};

class Socket {
 public:
  // `protocol` is NETLINK_NETFILTER or NETLINK_ROUTE. Opens the socket in the calling thread's
  // network namespace. `faults` may be null and must outlive the socket.
  static absl::StatusOr<Socket> Open(int protocol, SocketFaults* faults = nullptr);

  int fd() const { return fd_.get(); }
  uint32_t port_id() const { return port_id_; }  // Id of this socket in notifications.

  absl::Status Send(std::span<const uint8_t> bytes);

  // Enlarges the send buffer for a message of `bytes` bytes. Buffer sizes above net.core.wmem_max
  // require CAP_NET_ADMIN in the initial user namespace.
  absl::Status EnsureSendBuffer(size_t bytes);
  void RequestReceiveBuffer(size_t bytes);  // Ignores errors.

  // Joins a multicast group. Notifications arrive as datagrams. Queued notifications remain
  // available after LeaveGroup.
  absl::Status JoinGroup(int group);
  void LeaveGroup(int group);

  // The kernel discards messages for which the BPF program `filter` returns 0.
  absl::Status SetFilter(std::span<sock_filter> filter);

  // The kernel applies the fields of a dump request, for example the routing table, as a filter.
  absl::Status SetStrictChecking();

  // Returns the next datagram, or an empty span after `timeout`. Returns kResourceExhausted for
  // ENOBUFS, which means that messages were lost.
  absl::StatusOr<std::span<const uint8_t>> Receive(std::chrono::milliseconds timeout);

 private:
  // Return the errno, or 0 on success.
  int SetOption(int level, int option, int value);
  int SetOption(int level, int option, const void* value, socklen_t size);

  // Applies injected faults to a received datagram of `size` bytes. Returns true if Receive must
  // return the datagram now.
  absl::StatusOr<bool> Deliver(size_t size);

  UniqueFd fd_;
  uint32_t port_id_ = 0;
  size_t send_buffer_ = 0;
  std::vector<uint8_t> receive_buffer_;

  SocketFaults* faults_ = nullptr;
  std::vector<uint8_t> late_;  // Injected fault: datagram to return after the next timeout.
  std::vector<uint8_t> next_;  // Injected fault: datagram that the next call returns.
};

}  // namespace svcmap::nft
