// The lower bound of a sync. Sends the minimum that a proxy with one map element per endpoint must
// send to the kernel, as prepared batches over a raw socket.
//
// Uses three maps that no rule references. The first map has the address, protocol and port of a
// Service as key, and its group and number of endpoints as value. The second map has a group and a
// slot as key, and an endpoint as value. The third map contains this node's endpoints, for hairpin
// connections. A nodePort is stored as an additional address. There are no comments, affinity,
// policies, dumps or state files. The batches are built before the clock starts.
#pragma once

#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

absl::StatusOr<std::unique_ptr<Opponent>> MakeNetlink(const testing::NetNs& netns,
                                                      const OpponentSettings& settings);

}  // namespace svcmap::bench
