// Fuzzes the parsers of kernel responses: acknowledgements, errors, ends of dumps, chains, bridges,
// interface addresses and conntrack entries. netlink_changes_fuzz.cc and netlink_elements_fuzz.cc
// cover tables, sets and elements.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "nft/base/status.h"
#include "nft/conntrack/flow_message.h"
#include "nft/netlink/address_monitor.h"
#include "nft/netlink/answer.h"
#include "nft/netlink/bridge_reader.h"
#include "nft/netlink/chain_reader.h"
#include "nft/netlink/messages.h"

namespace svcmap::nft {
namespace {

void Require(bool holds) {
  if (!holds) __builtin_trap();
}

void CheckAnswer(const nlmsghdr* message) {
  const Answer answer = ReadAnswer(message);
  Require(answer.text.size() <= message->nlmsg_len);
  Require(answer.ToStatus("ask").ok() == (answer.error == 0));
  const int error = ErrorIn(message);
  Require(error >= 0 && (error == 0 || !ErrnoStatus(error, "dump").ok()));
}

void CheckChain(const nlmsghdr* message) {
  const std::optional<ForeignChain> chain = ReadChain(message);
  if (!chain) return;
  Require(chain->table.size() + chain->name.size() <= message->nlmsg_len);
  Require(!chain->family.empty());
}

// Checks that a parsed flow can be serialized, and that parsing the result gives an equal flow.
void CheckFlow(const nlmsghdr* message) {
  const std::optional<Flow> flow = ReadFlow(message);
  if (!flow) return;
  Require(flow->original.source.address.family() == flow->original.destination.address.family());
  Require(flow->reply.source.address.family() == flow->reply.destination.address.family());
  alignas(nlmsghdr) uint8_t buffer[kMaxFlowMessage] = {};
  Require(WriteFlowDeletion(buffer, *flow)->nlmsg_len <= sizeof(buffer));
}

void Check(const nlmsghdr* message) {
  CheckAnswer(message);
  CheckChain(message);
  CheckFlow(message);
  ReadFlowCount(message);
  ReadAddress(message);
  ReadGateways(message);
  if (const std::optional<Bridge> bridge = ReadBridge(message)) {
    Require(bridge->name.size() <= message->nlmsg_len);
  }
}

}  // namespace
}  // namespace svcmap::nft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 20) return 0;
  // Copy the input to an aligned buffer of exact size, so that a sanitizer detects reads past the
  // end.
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[size]);
  std::copy(data, data + size, bytes.get());
  for (const nlmsghdr* message : svcmap::nft::Messages({bytes.get(), size})) {
    svcmap::nft::Check(message);
  }
  return 0;
}
