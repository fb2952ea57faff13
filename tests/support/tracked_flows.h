// Makes and reads entries of the kernel's connection tracking table, for tests of what clears it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nft/conntrack/flow_table.h"

namespace svcmap::testing {

// IANA protocol numbers.
enum class FlowProtocol : uint8_t { kTcp = 6, kUdp = 17, kSctp = 132 };

struct TrackedFlow {
  FlowProtocol protocol = FlowProtocol::kUdp;
  nft::FlowTuple original;
  nft::FlowTuple reply;

  // "udp 10.0.0.9:4000 > 10.96.0.10:53, answers 10.0.1.1:53"
  std::string ToString() const;
};

// From `client` to `destination`; `answers` answers.
TrackedFlow AFlow(const nft::FlowEnd& client, const nft::FlowEnd& destination,
                  const nft::FlowEnd& answers);

// Puts them into the table of the calling thread's network namespace, alive for an hour. Stops at
// the first error, naming the flow.
absl::Status AddTrackedFlows(const std::vector<TrackedFlow>& flows);

// What nf_conntrack_count says of the calling thread's network namespace; 0 if it cannot be read.
uint64_t TrackedFlowCount();

}  // namespace svcmap::testing
