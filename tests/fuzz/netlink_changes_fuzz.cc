// Fuzzes ChangeReader and TableReader with arbitrary notifications and dumps. As in the socket
// layer, the readers receive only messages that fit into their datagram.
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "nft/netlink/change_reader.h"
#include "nft/netlink/messages.h"
#include "nft/netlink/table_reader.h"
#include "proxy/ruleset/table.h"

namespace svcmap {
namespace {

nft::ChangeReader& Changes() {
  static nft::ChangeReader changes(proxy::MakeTables({}));
  changes.Forget();
  return changes;
}

void Read(nft::TableReader& reader, const nlmsghdr* message) {
  switch (message->nlmsg_type & 0xff) {
    case NFT_MSG_NEWTABLE:
      return reader.AddTable(message);
    case NFT_MSG_NEWSET:
      return reader.AddSet(message);
    case NFT_MSG_NEWCHAIN:
      return reader.AddChain(message);
    case NFT_MSG_NEWRULE:
      return reader.AddRule(message);
    case NFT_MSG_NEWOBJ:
      return reader.AddObject(message);
    case NFT_MSG_NEWFLOWTABLE:
      return reader.AddFlowtable(message);
    default:
      return;
  }
}

}  // namespace
}  // namespace svcmap

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 20) return 0;
  // Copy the input to an aligned buffer of exact size, so that a sanitizer detects reads past the
  // end.
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[size]);
  std::copy(data, data + size, bytes.get());
  svcmap::nft::ChangeReader& changes = svcmap::Changes();
  svcmap::nft::TableReader table{std::string(svcmap::proxy::kTableName)};
  for (const nlmsghdr* message : svcmap::nft::Messages({bytes.get(), size})) {
    svcmap::Read(table, message);
    if ((message->nlmsg_type & 0xff) != NFT_MSG_NEWGEN) {
      changes.Read(message);
    } else if (mnl_nlmsg_get_payload_len(message) >= sizeof(nfgenmsg)) {
      const auto change = changes.Take(message);
      if (change && change->elements.size() > svcmap::nft::ForeignChange::kMaxElements) {
        __builtin_trap();
      }
    }
  }
  return 0;
}
