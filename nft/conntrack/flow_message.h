// Encodes and parses the ctnetlink messages of the flow table.
#pragma once

#include <libmnl/libmnl.h>

#include <optional>

#include "nft/conntrack/flow_table.h"

namespace svcmap::nft {

// Buffer size that is sufficient for every message in this file.
inline constexpr size_t kMaxFlowMessage = 256;

// Writes a request for all flows of both families and all protocols.
nlmsghdr* WriteFlowDump(uint8_t* buffer);

// Writes a request for the flows of one kind. Kernels before 5.8 ignore the filter and send all
// flows of the family. If a request covers both families, the kernel cannot filter by protocol
// (EOPNOTSUPP).
nlmsghdr* WriteFlowDump(uint8_t* buffer, const FlowKind& kind);

// Writes a request for the number of flows. ReadFlowCount parses the response.
nlmsghdr* WriteCountRequest(uint8_t* buffer);
std::optional<uint32_t> ReadFlowCount(const nlmsghdr* message);

// Writes a request to delete the conntrack entry of `flow`. The kernel looks up the entry by its
// reply tuple and deletes the entry only if the id matches. The kernel derives the id from the
// entry and its original tuple.
nlmsghdr* WriteFlowDeletion(uint8_t* buffer, const Flow& flow);

// Parses one flow. Returns nullopt if the message does not describe a UDP flow, an open TCP
// connection or an unreplied TCP connection or SCTP association. A TCP connection in state
// TIME_WAIT or CLOSE is not open.
std::optional<Flow> ReadFlow(const nlmsghdr* message);

}  // namespace svcmap::nft
