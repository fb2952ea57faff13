// Puts a TableContent together from the messages of dumps. Attributes that number things, or that a
// kernel may choose (handles, sizes, use counts, back ends), are left out of the digests.
#pragma once

#include <libmnl/libmnl.h>

#include <map>
#include <string>

#include "nft/model/table_content.h"

namespace svcmap::nft {

class TableReader {
 public:
  // Of one family; what belongs to other tables is skipped.
  explicit TableReader(std::string table) : table_(std::move(table)) {}

  void AddTable(const nlmsghdr* message);  // NFT_MSG_NEWTABLE
  // NFT_MSG_NEWSET, all of them before the first rule.
  void AddSet(const nlmsghdr* message);
  void AddChain(const nlmsghdr* message);      // NFT_MSG_NEWCHAIN, before its rules.
  void AddRule(const nlmsghdr* message);       // NFT_MSG_NEWRULE, in their order.
  void AddObject(const nlmsghdr* message);     // NFT_MSG_NEWOBJ
  void AddFlowtable(const nlmsghdr* message);  // NFT_MSG_NEWFLOWTABLE

  TableContent Take() { return std::move(content_); }

 private:
  uint64_t DigestExpression(const nlattr* expression, uint64_t seed) const;

  std::string table_;
  std::map<std::string, uint64_t> anonymous_;  // Sets inside rules: digests, by the kernel's name.
  TableContent content_;
};

}  // namespace svcmap::nft
