// Elements in the kernel that no new packet can reach any more, and the numbers that they use.
//
// A packet that arrived before the commit may still stand between two lookups and hold the key of
// such an element, for example on a kernel with preemption or on a virtual CPU that does not run.
// Elements are therefore due for deletion only after a wait for these packets (ReconcilerOptions).
// They are deleted in portions of kElementsPerCommit elements. A number is free again when its
// elements are deleted.
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
  void Add(nft::Transaction rows, const std::vector<Number>& numbers);

  bool empty() const { return rows_.portions.empty() && sources_.portions.empty(); }
  size_t elements() const { return keys_.size(); }
  // Returns the number of elements of the set in both tables.
  size_t Count(uint8_t set) const { return counts_[set]; }
  bool has_source_ranges() const;

  bool Contains(nft::SetRef set, std::span<const uint8_t> key) const;
  // Returns true if the transaction adds an element that is still to be deleted, or a source range
  // while source ranges are still to be deleted, because these could overlap.
  bool CollideWith(const nft::Transaction& transaction) const;

  // Returns true if elements must wait, and no wait for them has begun.
  bool NeedWait() const;
  // Begins a wait for the packets that may reach the elements. A wait that has not ended is
  // abandoned. Pass the result to EndWait() when these packets have left the rules.
  uint64_t BeginWait();
  void EndWait(uint64_t wait);  // Does nothing if the wait was abandoned.

  bool due() const { return rows_.due > 0 || sources_.due > 0; }
  // Returns the next portion. A portion must be due.
  const nft::Transaction& Next() const;
  void ForgetNext();  // Call when the next portion is deleted.
  void Clear();       // Forgets all elements, but not the numbers.
  // Returns the numbers that are free, and forgets them.
  std::vector<Number> TakeFreeNumbers();

 private:
  struct Portion {
    nft::Transaction elements;
    std::vector<Number> numbers;  // Free after the deletion of this portion.
    // Number of portions of other rows that are deleted before this portion begins to wait. Only
    // for source ranges.
    uint64_t after = 0;
  };
  struct Queue {
    std::deque<Portion> portions;
    size_t due = 0;      // Number of portions at the front that are due.
    size_t waiting = 0;  // Number of portions behind them that become due at the end of the wait.
  };

  // Returns the number of portions of source ranges that a wait can begin for.
  size_t WaitableSources() const;
  void AddElement(Queue& queue, const nft::ElementView& element, uint64_t after);

  // A packet that has found the restriction of a port range looks up its source next. Therefore
  // source ranges wait again after the other rows of the same call are deleted.
  Queue rows_, sources_;
  uint64_t deleted_ = 0;  // Number of deleted portions of `rows_`.
  uint64_t wait_ = 0;     // The last wait.
  absl::flat_hash_set<std::string> keys_;
  std::array<size_t, kRowSetCount> counts_ = {};
  std::vector<Number> numbers_;  // Free when no other rows than source ranges are left.
  std::vector<Number> free_;
};

}  // namespace svcmap::proxy
