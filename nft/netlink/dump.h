// Sends single netlink dump requests, to read the node's configuration.
#pragma once

#include <libmnl/libmnl.h>

#include <functional>

#include "absl/status/status.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {

// Sends `request` and calls on_message for each response until the end of the dump. If on_message
// returns false, returns kCancelled and leaves the remaining responses in the socket. Returns
// kUnavailable if a concurrent change interrupted the dump.
absl::Status DumpOnce(Socket& socket, const nlmsghdr* request,
                      const std::function<bool(const nlmsghdr*)>& on_message);

// Same as DumpOnce, but if a concurrent change interrupts the dump, calls on_restart and repeats
// the dump. Returns kUnavailable after too many interruptions.
absl::Status Dump(Socket& socket, nlmsghdr* request,
                  const std::function<bool(const nlmsghdr*)>& on_message,
                  const std::function<void()>& on_restart);

}  // namespace svcmap::nft
