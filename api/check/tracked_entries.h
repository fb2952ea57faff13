// Lists the entries of the connection tracking table.
//
// svcmapctl must not link the netlink libraries because of their licence (third_party/README.md),
// so this file uses the kernel's headers only.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "nft/conntrack/flow_table.h"
#include "proxy/state/objects.h"

namespace svcmap::api {

struct TrackedEntry {
  proxy::Protocol protocol = proxy::Protocol::kTcp;
  nft::FlowEnd client;
  nft::FlowEnd destination;  // Destination of the first packet.
  nft::FlowEnd answers;      // Sends the replies, after translation.
  uint32_t id = 0;           // Assigned by the kernel. Distinguishes flows with the same addresses.
};

// Calls `take` for each TCP, UDP and SCTP entry in the network namespace of the calling thread.
// Entries that change during the dump can be missing or listed twice. Requires CAP_NET_ADMIN.
//
// Requests all entries, without a filter in the kernel. With a filter, the kernel would process no
// packets on this CPU while it searches for the next matching entry
// (nft/conntrack/netlink_flow_table.cc).
absl::Status ForEachTrackedEntry(const std::function<void(const TrackedEntry&)>& take);

}  // namespace svcmap::api
