// A reference to a thread's network namespace, used to open sockets in the namespace later.
#pragma once

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {

class NetworkNamespace {
 public:
  static absl::StatusOr<NetworkNamespace> OfThisThread();

  // OpenSocket requires CAP_SYS_ADMIN if the calling thread is in a different network namespace.
  absl::StatusOr<Socket> OpenSocket(int protocol, SocketFaults* faults) const;

 private:
  explicit NetworkNamespace(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace svcmap::nft
