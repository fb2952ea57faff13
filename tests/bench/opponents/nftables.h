// The compared implementation "nftables" loads the rules of kube-proxy 1.36's nftables mode (see
// nftables_rules.h) with `nft -f -`, as kube-proxy does. Each sync runs nft once with one
// transaction. Before a sync, a separate transaction deletes chains that have been stale for more
// than one second (S-341). The benchmark uses the nft binary of this machine. Debian 12 and
// kube-proxy's image contain the same nft version, 1.0.6.
//
// The compared implementations "nftables-single" and "nftables-shared" differ from "nftables" only
// in NftablesNode::layout: kPlainSingle, which is the layout of kube-proxy 1.37, and
// kSharedDispatch.
//
// The compared implementation "nftables-library" loads the transactions of "nftables" with
// libnftables in one long-running process, so that the cost of starting nft is not measured.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "tests/bench/opponents/nftables_rules.h"
#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

// Returns FailedPrecondition if nft does not work.
absl::StatusOr<std::unique_ptr<Opponent>> MakeNftables(NftablesLayout layout,
                                                       const testing::NetNs& netns,
                                                       const OpponentSettings& settings);

// Returns FailedPrecondition if OpponentSettings::libnftables is not executable.
absl::StatusOr<std::unique_ptr<Opponent>> MakeNftablesLibrary(const testing::NetNs& netns,
                                                              const OpponentSettings& settings);

}  // namespace svcmap::bench
