// Lists all nf_tables chains on the node, including chains of other software.
#pragma once

#include <linux/netlink.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap::nft {

// A chain of any table on the node. The strings are the names that nft prints.
struct ForeignChain {
  struct Hook {
    std::string type;  // "filter", "nat" or "route"
    std::string hook;  // "forward", or a number if the hook is unknown.
    int priority = 0;
    bool policy_drop = false;
    // True if a rule accepts all packets of connections with a translated destination. Read only
    // for forward chains with policy drop.
    bool accepts_translated = false;
  };
  std::string family;  // "ip", "ip6", "inet", "bridge", "arp" or "netdev"
  std::string table;
  std::string name;
  std::optional<Hook> base;  // Set only for base chains.
};

// Parses one NFT_MSG_NEWCHAIN message. Returns nullopt if the message is too short.
std::optional<ForeignChain> ReadChain(const nlmsghdr* message);

// Returns true if the rule of an NFT_MSG_NEWRULE message accepts all packets of connections with a
// translated destination: "ct status dnat accept", or "-m conntrack --ctstate DNAT -j ACCEPT" of
// iptables-nft.
bool AcceptsTranslated(const nlmsghdr* message);

// Returns all chains in the calling thread's network namespace, from one generation. Requires
// CAP_NET_ADMIN.
absl::StatusOr<std::vector<ForeignChain>> ReadChains();

}  // namespace svcmap::nft
