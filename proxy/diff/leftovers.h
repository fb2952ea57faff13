// Elements in the kernel that no new packet can reach any more, and the numbers that they use. They
// are due for deletion after a wait for the packets that arrived before the commit (decision 0011,
// point 12). They are deleted in portions of kElementsPerCommit elements. A number is free again
// when its elements are deleted.
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "nft/model/transaction.h"
#include "proxy/desired/groups.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy {

class Leftovers {
 public:
  // `rows` are deletions. The numbers become free when these rows are deleted.
  void Add(const nft::Transaction& rows, const std::vector<Number>& numbers);

  bool empty() const { return portions_.empty(); }
  size_t elements() const { return keys_.size(); }
  // Returns the number of elements of the set in both tables.
  size_t Count(uint8_t set) const { return counts_[set]; }

  bool Contains(nft::SetRef set, std::span<const uint8_t> key) const;
  // Returns true if the transaction adds an element that is still to be deleted, a port range whose
  // address has a restriction that is still to be deleted, or a source range while source ranges
  // are still to be deleted, because these could overlap.
  bool CollideWith(const nft::Transaction& transaction) const;

  // Returns true if elements must wait, and no wait for them has begun.
  bool NeedWait() const { return waiting_ == 0 && portions_.size() > due_; }
  // Begins a wait for the packets that may reach the elements. A wait that has not ended is
  // abandoned. Pass the result to EndWait() when these packets have left the rules.
  uint64_t BeginWait();
  void EndWait(uint64_t wait);  // Does nothing if the wait was abandoned.

  bool due() const { return due_ > 0; }
  // Returns the next portion. A portion must be due.
  const nft::Transaction& Next() const { return portions_.front().elements; }
  void ForgetNext();  // Call when the next portion is deleted.
  void Clear();       // Forgets all elements, but not the numbers.
  // Returns the numbers that are free, and forgets them.
  std::vector<Number> TakeFreeNumbers();

 private:
  struct Portion {
    nft::Transaction elements;
    std::vector<Number> numbers;  // Free after the deletion of this portion.
    // Source ranges to append after the deletion of this portion. A packet that has found the
    // restriction of a port range looks up its source next. Therefore, source ranges wait again
    // after the other rows of the same Add() are deleted.
    nft::Transaction sources;
  };

  void Append(const nft::ElementView& element);

  std::deque<Portion> portions_;
  size_t due_ = 0;      // Number of portions at the front that are due.
  size_t waiting_ = 0;  // Number of the following portions that become due when the wait ends.
  uint64_t wait_ = 0;   // Number of the last wait.
  absl::flat_hash_set<std::string> keys_;
  std::array<size_t, kRowSetCount> counts_ = {};
  std::vector<Number> numbers_;  // Numbers that become free when no portion is left.
  std::vector<Number> free_;
};

}  // namespace svcmap::proxy
