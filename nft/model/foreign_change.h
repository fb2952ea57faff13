// A change to our tables that another process made in one transaction, as reported by kernel
// notifications.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nft/model/transaction.h"

namespace svcmap::nft {

struct ForeignChange {
  // If a transaction changes more elements than this, only the names of the sets are recorded.
  static constexpr size_t kMaxElements = 4096;

  struct Touched {
    SetRef set;
    std::vector<uint8_t> key;

    friend bool operator==(const Touched&, const Touched&) = default;
  };

  bool table = false;  // One of our tables was deleted, including its elements.
  // Chains, rules, set definitions or table flags changed, or elements of sets that svcmap did not
  // create.
  bool structure = false;
  // Notifications were lost or the listener was paused, so anything may have changed.
  bool lost = false;
  // Added or removed elements. Elements of interval sets and of dynamic sets are not included.
  // Rules add the elements of dynamic sets.
  std::vector<Touched> elements;
  std::vector<SetRef> sets;  // Sets with changed elements that are not listed in `elements`.
  // Description for logs: "3 elements deleted from endpoints, 1 rule added to pick"
  std::string text;
  std::string process;  // The process, as reported by the kernel: "nft (pid 123)". May be empty.
};

}  // namespace svcmap::nft
