// Creates and reads conntrack entries, for tests that delete conntrack entries.
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

  // Describes the flow, for example "udp 10.0.0.9:4000 > 10.96.0.10:53, answers 10.0.1.1:53".
  std::string ToString() const;
};

// Returns a flow from `client` to `destination`, with `answers` as the endpoint that answers.
TrackedFlow AFlow(const nft::FlowEnd& client, const nft::FlowEnd& destination,
                  const nft::FlowEnd& answers);

// Adds the flows to the conntrack table of the calling thread's namespace, with a timeout of one
// hour. Stops at the first error and names the flow in the error.
absl::Status AddTrackedFlows(const std::vector<TrackedFlow>& flows);

// Returns nf_conntrack_count of the calling thread's namespace, or 0 if it cannot be read.
uint64_t TrackedFlowCount();

}  // namespace svcmap::testing
