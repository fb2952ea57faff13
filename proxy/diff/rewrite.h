// The one comparison of elements: computes the changes that turn elements found in the kernel into
// the desired elements. Elements that are already right do not change, so packets are not affected.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "nft/model/kernel.h"
#include "nft/model/transaction.h"

namespace svcmap::proxy {

struct ElementChanges {
  nft::Transaction transaction;  // All deletions come first.
  size_t count = 0;              // Number of missing, wrong and unknown elements.
  // Sets of ranges that the same transaction must delete and create again. `transaction` contains
  // all desired elements of these sets, and no deletions.
  std::vector<nft::SetRef> replaced;
};

// Elements of the tables: all elements of all sets, except sets that only rules write, or those
// that are compared.
class FoundElements {
 public:
  void Add(nft::SetRef set, const std::vector<nft::Element>& elements);

  // Calls fn(const nft::ElementView&) for each element.
  template <typename Fn>
  void ForEach(Fn&& fn) const {
    for (const auto& [key, value] : values_) fn(ViewOf(key, value));
  }

  // Returns the changes that lead from these elements to the additions in `desired`. Replaces sets
  // with start and end elements of ranges if they differ, because the kernel may reject changes of
  // single bounds if other processes have added bounds. While a set is replaced, lookups on Linux
  // before 6.18 can miss ranges. Also replaces sets of source ranges if many ranges must be
  // deleted, because single deletions take quadratic time.
  ElementChanges ChangesTo(const nft::Transaction& desired) const;

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
