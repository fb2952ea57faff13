// The floor of a sync: the least that a proxy which keeps every endpoint in a map has to tell the
// kernel, as ready-made batches over a raw socket.
//
// Three maps that no rule uses: address, protocol and port of a Service to its group and number of
// endpoints; group and slot to an endpoint; and the endpoints of this node, which may connect to
// themselves. A nodePort counts as one more address. No comments, no affinity, no policies, nothing
// read back, nothing kept in a file. The bytes are made before the clock starts.
#pragma once

#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

absl::StatusOr<std::unique_ptr<Opponent>> MakeNetlink(const testing::NetNs& netns,
                                                      const OpponentSettings& settings);

}  // namespace svcmap::bench
