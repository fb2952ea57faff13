// Encodes and parses the ctnetlink messages of the flow table.
#pragma once

#include <libmnl/libmnl.h>

#include <optional>

#include "nft/conntrack/flow_table.h"

namespace svcmap::nft {

// Buffer size for any message written here.
inline constexpr size_t kMaxFlowMessage = 256;

// Requests all flows of both families and all protocols.
nlmsghdr* WriteFlowDump(uint8_t* buffer);

// Requests the UDP flows of one family. Kernels before 5.8 ignore the filter and send all flows of
// the family. The kernel cannot filter by protocol for both families at once (EOPNOTSUPP).
nlmsghdr* WriteUdpDump(uint8_t* buffer, Family family);

// Requests the number of flows. ReadFlowCount parses the response.
nlmsghdr* WriteCountRequest(uint8_t* buffer);
std::optional<uint32_t> ReadFlowCount(const nlmsghdr* message);

// Deletes the conntrack entry with this reply tuple and this id. The kernel looks up the entry by
// the reply tuple and compares the id, which is derived from the entry and its original tuple.
nlmsghdr* WriteFlowDeletion(uint8_t* buffer, const UdpFlow& flow);

// Returns nullopt if the message is not a UDP flow.
std::optional<UdpFlow> ReadFlow(const nlmsghdr* message);

}  // namespace svcmap::nft
