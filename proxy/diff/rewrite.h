// Computes the changes that turn the elements found in the tables into the desired elements.
// Elements that are already right do not change, so a complete rewrite does not affect packets.
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

  // Calls fn(const nft::ElementView&) for each element.
  template <typename Fn>
  void ForEach(Fn&& fn) const {
    for (const auto& [key, value] : values_) fn(ViewOf(key, value));
  }

  // Returns the ports with session affinity that have endpoints here and none in `desired`.
  std::vector<Number> StickyPortsNotIn(const nft::Transaction& desired) const;

  // Returns the elements of `local-sets`, as SharedKey, that `desired` does not contain although it
  // contains their descriptors. See Plan::ended_local_sets().
  absl::flat_hash_set<std::string> EndedLocalSets(const nft::Transaction& desired) const;

  // Returns the deletions and additions that lead from these elements to the additions in
  // `desired`. All deletions come first. `replaced` are sets that the same transaction must delete
  // and create again. The result contains all desired elements of these sets, and no deletions.
  // The sets in `replaced` contain ranges. Range bounds cannot be deleted one by one if other
  // processes have added bounds. In sets with several key fields, deleting many ranges takes
  // quadratic time.
  nft::Transaction ChangesTo(const nft::Transaction& desired,
                             std::vector<nft::SetRef>& replaced) const;

 private:
  struct Value {
    std::string data;
    std::string comment;
  };
  static nft::ElementView ViewOf(const std::string& key, const Value& value);
  static bool Same(const Value& value, const nft::ElementView& element);

  absl::flat_hash_map<std::string, Value> values_;  // By set, key, last key and kind of bound.
};

}  // namespace svcmap::proxy
