// Lists the bridges of a network namespace through rtnetlink. ReadBridges does not use
// /sys/class/net, because its content depends on the network namespace in which /sys was mounted.
#pragma once

#include <linux/netlink.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap::nft {

struct Bridge {
  std::string name;
  // True if packets forwarded by this bridge traverse the IPv4 or IPv6 hooks even if the sysctls
  // net.bridge.bridge-nf-call-* are 0 ("ip link set NAME type bridge nf_call_iptables 1").
  bool calls_iptables = false;
  bool calls_ip6tables = false;

  friend bool operator==(const Bridge&, const Bridge&) = default;
};

// Parses one RTM_NEWLINK message. Returns nullopt if the link is not a bridge.
std::optional<Bridge> ReadBridge(const nlmsghdr* message);

// Lists the bridges in the calling thread's network namespace.
absl::StatusOr<std::vector<Bridge>> ReadBridges();

}  // namespace svcmap::nft
