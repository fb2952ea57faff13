// The messages of ctnetlink that the flow table speaks.
#pragma once

#include <libmnl/libmnl.h>

#include <optional>

#include "nft/conntrack/flow_table.h"

namespace svcmap::nft {

// Room for each message that is written here.
inline constexpr size_t kMaxFlowMessage = 256;

// Asks for all flows of both families, whatever their protocol.
nlmsghdr* WriteFlowDump(uint8_t* buffer);

// Asks for the UDP flows of one family. Only kernels from 5.8 on know what they are asked; older
// ones send all flows of the family. The kernel cannot do it for both families at once
// (EOPNOTSUPP).
nlmsghdr* WriteUdpDump(uint8_t* buffer, Family family);

// Asks how many flows there are; the answer is for ReadFlowCount.
nlmsghdr* WriteCountRequest(uint8_t* buffer);
std::optional<uint32_t> ReadFlowCount(const nlmsghdr* message);

// Deletes the entry with this reply direction and this id. The kernel looks it up by the one and
// compares the other, which stands for its original direction and the entry itself.
nlmsghdr* WriteFlowDeletion(uint8_t* buffer, const UdpFlow& flow);

// Nothing if it is no UDP flow.
std::optional<UdpFlow> ReadFlow(const nlmsghdr* message);

}  // namespace svcmap::nft
