// A change to svcmap's tables that another process made in one transaction, as reported by kernel
// notifications.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nft/model/transaction.h"

namespace svcmap::nft {

struct ForeignChange {
  // Maximum number of recorded elements. For a larger transaction, only the changed sets are
  // recorded.
  static constexpr size_t kMaxElements = 4096;

  struct Touched {
    SetRef set;
    std::vector<uint8_t> key;

    friend bool operator==(const Touched&, const Touched&) = default;
  };

  bool table = false;  // True if one of svcmap's tables was deleted.
  // True if chains, rules, set definitions or table flags changed, or if elements changed in sets
  // that svcmap did not create.
  bool structure = false;
  // True if any part of the tables may have changed, because notifications were lost or the
  // listener was paused.
  bool lost = false;
  // Added or removed elements. Elements of interval sets and of dynamic sets are not included. The
  // kernel adds elements to dynamic sets when it evaluates rules.
  std::vector<Touched> elements;
  std::vector<SetRef> sets;  // Sets whose changed elements are not listed in `elements`.
  // Description for logs, such as "3 elements deleted from endpoints, 1 rule added to pick".
  std::string text;
  std::string process;  // Name and pid of the process, such as "nft (pid 123)". May be empty.
};

}  // namespace svcmap::nft
