// Combines several changes, as a busy proxy or a coalescing controller does.
#pragma once

#include <vector>

#include "tests/bench/cluster/cluster.h"

namespace svcmap::bench {

// Returns one change per Service port, from the state before all changes to the state after them,
// in the order of the first change. If several messages concern one object, only the last is kept.
// Service ports that were added and deleted again are omitted.
std::vector<ClusterChange> MergeChanges(std::vector<ClusterChange> changes);

}  // namespace svcmap::bench
