// Opponent "nftables": the rules of kube-proxy 1.36's nftables mode (see nftables_rules.h), loaded
// with `nft -f -` as kube-proxy does it: one process and one transaction per sync, and before it
// another one that deletes chains which have been stale for a second (S-341). The nft is this
// machine's; Debian 12 and kube-proxy's image have the same version, 1.0.6.
//
// Opponent "nftables-single": the same with NftablesNode::plain_single; Services with more
// endpoints, or affinity, look alike in both.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tests/bench/opponents/nftables_rules.h"
#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

// The node of tests/support/topology.h, and the cluster CIDR that tests/support/agent.h gives to
// svcmapd.
NftablesNode TopologyNode(Family family);

// FailedPrecondition without a nft that works.
absl::StatusOr<std::unique_ptr<Opponent>> MakeNftables(bool plain_single,
                                                       const testing::NetNs& netns,
                                                       const OpponentSettings& settings);

}  // namespace svcmap::bench
