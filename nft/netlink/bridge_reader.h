// Reads which bridges there are. Through rtnetlink, because /sys/class/net shows the namespace that
// /sys was mounted in, which need not be the caller's.
#pragma once

#include <linux/netlink.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap::nft {

struct Bridge {
  std::string name;
  // Packets that only cross this bridge pass the IPv4 or IPv6 hooks whatever the sysctls
  // net.bridge.bridge-nf-call-* say ("ip link set NAME type bridge nf_call_iptables 1").
  bool calls_iptables = false;
  bool calls_ip6tables = false;

  friend bool operator==(const Bridge&, const Bridge&) = default;
};

// From one RTM_NEWLINK message; nothing if the link is no bridge.
std::optional<Bridge> ReadBridge(const nlmsghdr* message);

// Those of the calling thread's network namespace.
absl::StatusOr<std::vector<Bridge>> ReadBridges();

}  // namespace svcmap::nft
