// Lists the UDP entries of the connection tracking table.
//
// svcmapctl must not link the netlink libraries because of their licence (third_party/README.md),
// so this file uses the kernel's headers only.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {

struct UdpEntry {
  IpAddress client;
  uint16_t client_port = 0;
  IpAddress destination;  // Destination of the first packet.
  uint16_t destination_port = 0;
  IpAddress answers;  // Address that sends the replies, after translation.
  uint16_t answers_port = 0;
};

// Calls `take` for each UDP entry in the network namespace of the calling thread. Entries that
// change during the listing can be missing or listed twice. Requires CAP_NET_ADMIN.
absl::Status ForEachUdpEntry(const std::function<void(const UdpEntry&)>& take);

}  // namespace svcmap::api
