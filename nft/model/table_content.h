// What a table is made of beside its elements, in a form that can be compared: two tables that were
// created from the same TableSpec have equal contents, whatever happened in between.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace svcmap::nft {

struct TableContent {
  // By name: a digest of the chain (type, hook, priority, policy) and of its rules in their order,
  // without what the kernel numbers (handles, positions, use counts, names of anonymous sets).
  std::map<std::string, uint64_t> chains;
  // Of named sets, by name: a digest of the definition without its size.
  std::map<std::string, uint64_t> sets;
  // Of named sets, by name: how many elements they hold. Absent where the kernel does not tell
  // (before Linux 6.16).
  std::map<std::string, uint32_t> elements;
  std::vector<std::string> others;  // Stateful objects and flowtables, which we never make.
};

}  // namespace svcmap::nft
