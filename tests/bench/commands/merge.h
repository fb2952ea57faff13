// Several changes as one: what a proxy that was busy sees, and what a controller tells that writes
// once what changed ten times.
#pragma once

#include <vector>

#include "tests/bench/cluster/cluster.h"

namespace svcmap::bench {

// One change for each Service port, in the order in which they were first touched: from what it was
// before all of them to what it is after. Of the messages about one object the last stays. What
// came and went is left out.
std::vector<ClusterChange> MergeChanges(std::vector<ClusterChange> changes);

}  // namespace svcmap::bench
