// One dump request through netlink, for the readers that look at what others have set up.
#pragma once

#include <libmnl/libmnl.h>

#include <functional>

#include "absl/status/status.h"
#include "nft/netlink/socket.h"

namespace svcmap::nft {

// Sends `request` and calls on_message for each answer to it, until the end of the dump or until it
// returns false: kCancelled, and the rest is left in the socket. kUnavailable if a change disturbed
// it.
absl::Status DumpOnce(Socket& socket, const nlmsghdr* request,
                      const std::function<bool(const nlmsghdr*)>& on_message);

// Sends `request` and calls on_message for each answer to it, until the end of the dump. A change
// in between makes it start again, after on_restart; kUnavailable if that happens time and again.
absl::Status Dump(Socket& socket, nlmsghdr* request,
                  const std::function<void(const nlmsghdr*)>& on_message,
                  const std::function<void()>& on_restart);

}  // namespace svcmap::nft
