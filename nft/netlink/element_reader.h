// Parses the set elements in netlink messages. Other programs may have added elements, so the
// parser skips unknown attributes and user data and validates every length.
#pragma once

#include <libmnl/libmnl.h>

#include <vector>

#include "nft/model/kernel.h"

namespace svcmap::nft {

// Appends the elements of one NFT_MSG_NEWSETELEM or NFT_MSG_DELSETELEM message.
void ReadElements(const nlmsghdr* message, std::vector<Element>& elements);

// Packet counter of one element.
struct ElementCount {
  std::vector<uint8_t> key;
  uint64_t packets = 0;

  friend bool operator==(const ElementCount&, const ElementCount&) = default;
};

// Appends the counters of all elements that have a counter.
void ReadCounts(const nlmsghdr* message, std::vector<ElementCount>& counts);

}  // namespace svcmap::nft
