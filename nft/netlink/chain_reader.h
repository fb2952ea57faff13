// Reads which chains there are in nf_tables, everybody's: what svcmap must live with on a node.
#pragma once

#include <linux/netlink.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap::nft {

// A chain of any table, in nft's words.
struct ForeignChain {
  struct Hook {
    std::string type;  // "filter", "nat" or "route"
    std::string hook;  // "forward"; a number if we do not know its name
    int priority = 0;
    bool policy_drop = false;
  };
  std::string family;  // "ip", "ip6", "inet", "bridge", "arp" or "netdev"
  std::string table;
  std::string name;
  std::optional<Hook> base;  // Of base chains only.
};

// From one NFT_MSG_NEWCHAIN message; nothing if it is too short for one.
std::optional<ForeignChain> ReadChain(const nlmsghdr* message);

// All chains of the calling thread's network namespace, as of one generation. Needs CAP_NET_ADMIN.
absl::StatusOr<std::vector<ForeignChain>> ReadChains();

}  // namespace svcmap::nft
