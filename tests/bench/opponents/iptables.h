// The opponents "iptables-legacy" and "iptables-nft": what kube-proxy 1.36 in iptables mode runs in
// one sync, on rules of its making (iptables_rules.h).
//
// Measured: iptables-restore, and before it the iptables-save with which kube-proxy looks for stale
// chains, where it does that: each time in small clusters, and every 30 s in large ones. Not
// measured, which favours kube-proxy: its own work, the jumps from built-in chains at the start,
// and in full syncs the 28 runs of iptables that ask whether these are still there.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

// FailedPrecondition, with what the program said, if it is not there or the kernel cannot do what
// kube-proxy's rules need. IPv6 is tried by Load, and only for clusters that have it.
absl::StatusOr<std::unique_ptr<Opponent>> MakeIptables(bool legacy, const testing::NetNs& netns,
                                                       const OpponentSettings& settings);

}  // namespace svcmap::bench
