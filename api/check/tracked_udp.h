// Lists the UDP entries of the connection tracking table.
//
// svcmapctl must not link the netlink libraries because of their licence (third_party/README.md),
// so this file uses the kernel's headers only.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "nft/conntrack/flow_table.h"

namespace svcmap::api {

struct UdpEntry {
  nft::FlowEnd client;
  nft::FlowEnd destination;  // Destination of the first packet.
  nft::FlowEnd answers;      // Sends the replies, after translation.
};

// Calls `take` for each UDP entry in the network namespace of the calling thread. Entries that
// change during the listing can be missing or listed twice. Requires CAP_NET_ADMIN.
absl::Status ForEachUdpEntry(const std::function<void(const UdpEntry&)>& take);

}  // namespace svcmap::api
