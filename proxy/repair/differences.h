// What must be written so that elements in the kernel are again the rows that are applied. Pure.
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
  // One place: what should be there and what is; `key` is that of both.
  void Compare(nft::SetRef set, std::span<const uint8_t> key, const std::optional<Row>& expected,
               const std::optional<nft::Element>& found);

  // A whole set.
  void CompareSet(nft::SetRef set, const std::vector<Row>& expected,
                  const std::vector<nft::Element>& found);

  // Elements that were missing, wrong or not ours.
  size_t count() const { return count_; }
  size_t deletions() const { return deletions_.element_count(); }

  // The deletions, then the additions.
  nft::Transaction TakeRepair();

 private:
  nft::Transaction deletions_;
  nft::Transaction additions_;
  size_t count_ = 0;
};

}  // namespace svcmap::proxy
