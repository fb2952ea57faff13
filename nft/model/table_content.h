// The structure of a table without its elements, in a form that can be compared. Two tables created
// from the same TableSpec on the same kernel have equal `chains` and `sets`. Another Linux version
// may encode the same table differently.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nft/model/table.h"

namespace svcmap::nft {

// An object that svcmap never creates: a stateful object, such as a counter, or a flowtable.
struct ForeignObject {
  std::string name;
  uint32_t type = 0;  // NFT_OBJECT_*, or 0 for a flowtable.

  friend bool operator==(const ForeignObject&, const ForeignObject&) = default;
};

struct TableContent {
  // Maps each chain name to a digest of the chain (type, hook, priority, policy) and of its rules
  // in order. The digest excludes chain comments and values assigned by the kernel: handles,
  // positions, use counts and names of anonymous sets. The digest also excludes elements of
  // anonymous sets, because these elements are immutable.
  std::map<std::string, uint64_t> chains;
  // Type, hook and priority of each base chain. The kernel cannot change these values.
  std::map<std::string, BaseChain> bases;
  // Maps the name of each named set to a digest of the set's definition without the size.
  std::map<std::string, uint64_t> sets;
  // Maps the name of each named set to its number of elements. For interval sets with one field,
  // the value is half the number of start and end elements, rounded down. A set is absent if the
  // kernel does not report its number of elements (before Linux 6.16).
  std::map<std::string, uint32_t> elements;
  std::vector<ForeignObject> objects;
  uint32_t flags = 0;  // NFT_TABLE_F_*: dormant, owner.

  friend bool operator==(const TableContent&, const TableContent&) = default;
};

}  // namespace svcmap::nft
