// Combines several changes into one update, as a busy proxy or a coalescing controller does.
#pragma once

#include <vector>

#include "tests/bench/cluster/cluster.h"

namespace svcmap::bench {

// Returns one change per Service port, which leads from the state before all changes to the state
// after all changes. The result has the order of each port's first change. If several messages
// contain the same object, the result contains only the last message. The result omits Service
// ports that were added and deleted again.
std::vector<ClusterChange> MergeChanges(std::vector<ClusterChange> changes);

}  // namespace svcmap::bench
