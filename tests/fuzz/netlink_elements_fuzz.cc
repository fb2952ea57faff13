// Fuzzes ReadElements and ReadCounts with arbitrary dumps and notifications. As in the socket
// layer, the readers receive only messages that mnl_nlmsg_ok accepts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "nft/netlink/element_reader.h"
#include "nft/netlink/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 20) return 0;
  // Copy the input to an aligned buffer of exact size, so that a sanitizer detects reads past the
  // end.
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[size]);
  std::copy(data, data + size, bytes.get());
  std::vector<svcmap::nft::Element> elements;
  std::vector<svcmap::nft::ElementCount> counts;
  for (const nlmsghdr* message : svcmap::nft::Messages({bytes.get(), size})) {
    svcmap::nft::ReadElements(message, elements);
    svcmap::nft::ReadCounts(message, counts);
  }
  for (const svcmap::nft::Element& element : elements) {
    if (element.key.size() + element.data.size() + element.comment.size() > size) __builtin_trap();
  }
  return 0;
}
