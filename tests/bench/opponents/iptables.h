// The compared implementations "iptables-legacy" and "iptables-nft" run the commands of a
// kube-proxy 1.36 sync in iptables mode, with the rules from iptables_rules.h.
//
// The measurement includes iptables-restore and the preceding iptables-save with which kube-proxy
// finds stale chains. kube-proxy runs iptables-save in each sync in small clusters, and every 30 s
// in large clusters. The measurement excludes kube-proxy's own work and the creation of jumps from
// built-in chains. The measurement also excludes the 28 iptables commands with which a full sync
// checks the jumps. All omissions favour kube-proxy.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

// Returns FailedPrecondition with the output of iptables if iptables is missing or the kernel lacks
// a feature that kube-proxy's rules need. MakeIptables checks only IPv4. Load also checks IPv6 if
// the cluster uses IPv6.
absl::StatusOr<std::unique_ptr<Opponent>> MakeIptables(bool legacy, const testing::NetNs& netns,
                                                       const OpponentSettings& settings);

}  // namespace svcmap::bench
