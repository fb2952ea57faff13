// The compared implementation "netlink" is the lower bound for the duration of a sync. "netlink"
// sends the minimum that a proxy with one map element per endpoint must send to the kernel, as
// prepared batches over a raw socket.
//
// "netlink" fills two maps and a set that no rule references. The keys of the first map consist of
// a Service's address, protocol and port. The values consist of the Service's group and number of
// endpoints. The keys of the second map consist of a group and a slot, and the values are
// endpoints. The set contains the node's endpoints for hairpin connections. A nodePort is stored as
// an additional Service address. "netlink" does not support comments, session affinity, traffic
// policies, dumps or state files. Batches are built before the time measurement starts.
#pragma once

#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

absl::StatusOr<std::unique_ptr<Opponent>> MakeNetlink(const testing::NetNs& netns,
                                                      const OpponentSettings& settings);

}  // namespace svcmap::bench
