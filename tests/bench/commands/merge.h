// Combines several changes like a busy proxy or a coalescing controller.
#pragma once

#include <vector>

#include "tests/bench/cluster/cluster.h"

namespace svcmap::bench {

// Returns one change per Service port, from the state before all changes to the state after all
// changes, in the order of the first change. If several messages contain the same object, only the
// last message is kept. Service ports that were added and deleted again are omitted.
std::vector<ClusterChange> MergeChanges(std::vector<ClusterChange> changes);

}  // namespace svcmap::bench
