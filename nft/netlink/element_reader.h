// Reads set elements out of netlink messages, whoever wrote them: unknown attributes and foreign
// user data are skipped, nothing is trusted to have a length.
#pragma once

#include <libmnl/libmnl.h>

#include <vector>

#include "nft/model/kernel.h"

namespace svcmap::nft {

// Appends the elements of one NFT_MSG_NEWSETELEM or _DELSETELEM message.
void ReadElements(const nlmsghdr* message, std::vector<Element>& elements);

// How many packets an element has counted.
struct ElementCount {
  std::vector<uint8_t> key;
  uint64_t packets = 0;

  friend bool operator==(const ElementCount&, const ElementCount&) = default;
};

// The same for the elements that have a counter.
void ReadCounts(const nlmsghdr* message, std::vector<ElementCount>& counts);

}  // namespace svcmap::nft
