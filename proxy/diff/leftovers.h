// Elements in the kernel that no packet can reach any more, and the numbers that they use. They
// are deleted in portions of kElementsPerCommit elements after the commit that made them
// unreachable, source ranges after all others. A number is free again when its elements are
// deleted.
//
// Not thread-safe.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "nft/model/transaction.h"
#include "proxy/desired/groups.h"

namespace svcmap::proxy {

class Leftovers {
 public:
  // `rows` are deletions. If `rows` is empty, the numbers become free when the rows of previous
  // calls are deleted.
  void Add(nft::Transaction rows, const std::vector<Number>& numbers);

  bool empty() const { return portions_.empty(); }

  // Returns true if the transaction adds an element that is still to be deleted, or a source range
  // while source ranges are still to be deleted, because these could overlap.
  bool CollideWith(const nft::Transaction& transaction) const;

  // Returns the oldest portion. Must not be called if there is none.
  const nft::Transaction& Next() const { return portions_.front(); }
  void ForgetNext();  // Call when the oldest portion is deleted.
  void Clear();       // Forgets all elements, but not the numbers.
  // Returns the numbers if no element is left, and forgets them.
  std::vector<Number> TakeFreeNumbers();

 private:
  std::deque<nft::Transaction> portions_;
  absl::flat_hash_set<std::string> keys_;
  size_t source_ranges_ = 0;
  std::vector<Number> numbers_;
};

}  // namespace svcmap::proxy
