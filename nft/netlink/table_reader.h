// Builds a TableContent from dump messages. The digests exclude attributes that the kernel assigns
// or may choose (handles, sizes, use counts, set backends).
#pragma once

#include <libmnl/libmnl.h>

#include <map>
#include <string>

#include "nft/model/table_content.h"

namespace svcmap::nft {

class TableReader {
 public:
  // Reads one table of one family and skips all other tables.
  explicit TableReader(std::string table) : table_(std::move(table)) {}

  void AddTable(const nlmsghdr* message);  // NFT_MSG_NEWTABLE
  // NFT_MSG_NEWSET. Call AddSet for all sets before the first rule.
  void AddSet(const nlmsghdr* message);
  void AddChain(const nlmsghdr* message);      // NFT_MSG_NEWCHAIN. Call before the chain's rules.
  void AddRule(const nlmsghdr* message);       // NFT_MSG_NEWRULE. Call in rule order.
  void AddObject(const nlmsghdr* message);     // NFT_MSG_NEWOBJ
  void AddFlowtable(const nlmsghdr* message);  // NFT_MSG_NEWFLOWTABLE

  TableContent Take() { return std::move(content_); }

 private:
  uint64_t DigestExpression(const nlattr* expression, uint64_t seed) const;

  std::string table_;
  // Digests of anonymous sets, keyed by the name that the kernel assigned.
  std::map<std::string, uint64_t> anonymous_;
  TableContent content_;
};

}  // namespace svcmap::nft
