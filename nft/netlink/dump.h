// Sends netlink requests and reads the responses.
#pragma once

#include <libmnl/libmnl.h>

#include <functional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {

// Reads the responses to `request` from the datagrams that `receive` returns, and calls on_message
// for each response. Returns at the end of a dump or after a requested acknowledgement. For other
// requests, returns after the first response. If on_message returns false, returns kCancelled and
// leaves the remaining responses in the socket. Returns kUnavailable if a concurrent change
// interrupted a dump. An empty datagram means a timeout.
absl::Status ReadAnswers(const nlmsghdr* request,
                         const std::function<absl::StatusOr<std::span<const uint8_t>>()>& receive,
                         const std::function<bool(const nlmsghdr*)>& on_message);

// Sends `request` and reads the responses with ReadAnswers.
absl::Status DumpOnce(Socket& socket, const nlmsghdr* request,
                      const std::function<bool(const nlmsghdr*)>& on_message);

// Same as DumpOnce, but if a concurrent change interrupts the dump, calls on_restart and repeats
// the dump. Returns kUnavailable after too many interruptions.
absl::Status Dump(Socket& socket, nlmsghdr* request,
                  const std::function<bool(const nlmsghdr*)>& on_message,
                  const std::function<void()>& on_restart);

}  // namespace svcmap::nft
