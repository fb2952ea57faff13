// What somebody else did to our tables in one transaction, as the kernel's notifications tell it.
#pragma once

#include <cstddef>
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

    friend bool operator==(const Touched&, const Touched&) = default;
  };

  bool table = false;      // A table of ours was deleted: its elements are gone.
  bool structure = false;  // Anything but elements: chains, rules, definitions of sets, flags of a
                           // table; also elements of sets that are not ours.
  bool lost = false;  // Notifications were lost, or not listened to: anything may have changed.
  // Added or removed, of sets whose keys are no ranges; not those of dynamic sets, which rules
  // write.
  std::vector<Touched> elements;
  std::vector<SetRef> sets;  // In which elements changed that are not named above.
  std::string text;     // For people: "3 elements deleted from endpoints, 1 rule added to pick"
  std::string process;  // Who, as the kernel names it: "nft (pid 123)"; may be empty.
};

}  // namespace svcmap::nft
