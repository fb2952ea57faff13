// Computes the changes that make elements in the kernel equal to the applied rows. Differences does
// not modify the kernel.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "nft/model/kernel.h"
#include "nft/model/transaction.h"
#include "proxy/desired/rows.h"

namespace svcmap::proxy {

class Differences {
 public:
  // Compares the expected element and the found element with key `key`.
  void Compare(nft::SetRef set, std::span<const uint8_t> key, const std::optional<Row>& expected,
               const std::optional<nft::Element>& found);

  // Compares all elements of a set.
  void CompareSet(nft::SetRef set, const std::vector<Row>& expected,
                  const std::vector<nft::Element>& found);

  // Returns the number of missing, wrong and unknown elements.
  size_t count() const { return count_; }
  size_t deletions() const { return deletions_.element_count(); }

  // Returns the deletions, followed by the additions.
  nft::Transaction TakeRepair();

 private:
  nft::Transaction deletions_;
  nft::Transaction additions_;
  size_t count_ = 0;
};

}  // namespace svcmap::proxy
