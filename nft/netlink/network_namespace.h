// The network namespace of a thread, kept so that sockets can be opened in it later on.
#pragma once

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {

class NetworkNamespace {
 public:
  static absl::StatusOr<NetworkNamespace> OfThisThread();

  // From a thread that has moved elsewhere it needs CAP_SYS_ADMIN.
  absl::StatusOr<Socket> OpenSocket(int protocol, SocketFaults* faults) const;

 private:
  explicit NetworkNamespace(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace svcmap::nft
