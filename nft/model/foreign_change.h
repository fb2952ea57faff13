// What somebody else did to our tables in one transaction, as the kernel's notifications tell it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nft/model/transaction.h"

namespace svcmap::nft {

struct ForeignChange {
  // Of more elements of one transaction only the sets are kept.
  static constexpr size_t kMaxElements = 4096;

  struct Touched {
    SetRef set;
    std::vector<uint8_t> key;
  };

  bool table = false;      // A table of ours was deleted (or added): its elements are gone.
  bool structure = false;  // Chains, rules or definitions of sets were added, changed or removed.
  bool lost = false;  // Notifications were lost, or not listened to: anything may have changed.
  std::vector<Touched> elements;  // Added or removed, of sets whose keys are no ranges.
  std::vector<SetRef> sets;       // In which elements changed that are not named above.
  std::string text;               // For people: "3 elements deleted from endpoints, 1 rule added"
  std::string process;            // Who, as the kernel names it: "nft (pid 123)"; may be empty.
};

}  // namespace svcmap::nft
