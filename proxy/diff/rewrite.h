// Turns tables with known elements into tables with the desired elements. Elements that are already
// right are not touched, so that a complete rewrite disturbs no packet.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "nft/model/kernel.h"
#include "nft/model/transaction.h"
#include "proxy/desired/groups.h"

namespace svcmap::proxy {

// The elements of all sets of both tables, except sets that only rules write.
class FoundElements {
 public:
  void Add(nft::SetRef set, const std::vector<nft::Element>& elements);

  // The groups that endpoints and affinity slots use, ascending for each allocator.
  std::vector<std::pair<Number, std::vector<uint32_t>>> Groups() const;

  // Returns the ports with session affinity that have endpoints here and none in `desired`.
  std::vector<Number> StickyPortsNotIn(const nft::Transaction& desired) const;

  // Returns the deletions and additions that lead from these elements to the additions in
  // `desired`. All deletions come first. `replaced` are sets that must be deleted and created again
  // in the same transaction, which only adds their elements: the bounds of ranges cannot be deleted
  // one by one if other processes have added bounds, and the kernel needs quadratic time to delete
  // many ranges of several fields.
  nft::Transaction ChangesTo(const nft::Transaction& desired,
                             std::vector<nft::SetRef>& replaced) const;

 private:
  struct Value {
    std::string data;
    std::string comment;
  };
  static bool Same(const Value& value, const nft::ElementView& element);
  std::vector<nft::SetRef> SetsToReplace(const absl::flat_hash_set<std::string>& wanted) const;

  absl::flat_hash_map<std::string, Value> values_;  // By set, key, last key and kind of bound.
};

}  // namespace svcmap::proxy
