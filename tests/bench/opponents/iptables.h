// The opponents "iptables-legacy" and "iptables-nft": the commands of one sync of kube-proxy 1.36
// in iptables mode, with the rules of iptables_rules.h.
//
// Measured: iptables-restore, and the preceding iptables-save with which kube-proxy finds stale
// chains (in each sync in small clusters, every 30 s in large clusters). Not measured, which
// favours kube-proxy: kube-proxy's own work, the jumps from built-in chains at the start, and the
// 28 iptables commands of a full sync that check these jumps.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

// Returns FailedPrecondition with the output of iptables if iptables is missing or the kernel lacks
// a feature that kube-proxy's rules need. IPv6 is tested later, by Load, and only for clusters with
// IPv6.
absl::StatusOr<std::unique_ptr<Opponent>> MakeIptables(bool legacy, const testing::NetNs& netns,
                                                       const OpponentSettings& settings);

}  // namespace svcmap::bench
