// What a table is made of beside its elements, in a form that can be compared: two tables that were
// created from the same TableSpec have equal `chains` and `sets`, whatever happened in between, on
// one kernel; another version of Linux may describe the same table in other bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace svcmap::nft {

struct TableContent {
  // By name: a digest of the chain (type, hook, priority, policy) and of its rules in their order.
  // Not in it: what the kernel numbers (handles, positions, use counts, names of the sets inside
  // rules), the elements of sets inside rules, which nobody can change, and comments of chains.
  std::map<std::string, uint64_t> chains;
  // Of named sets, by name: a digest of the definition without its size.
  std::map<std::string, uint64_t> sets;
  // Of named sets, by name: how many elements they hold, in interval sets with a single field half
  // as many as there are starts and ends, rounded down. Absent where the kernel does not tell
  // (before Linux 6.16).
  std::map<std::string, uint32_t> elements;
  // What we never make: stateful objects, flowtables, flags of the table (dormant, owner).
  std::vector<std::string> others;

  friend bool operator==(const TableContent&, const TableContent&) = default;
};

}  // namespace svcmap::nft
