// ReadElements and ReadCounts on arbitrary bytes: what a dump or a notification could hold at
// worst. The socket layer hands over messages that mnl_nlmsg_ok accepts, so that is checked first,
// as it does.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "nft/netlink/element_reader.h"
#include "nft/netlink/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 20) return 0;
  // An aligned copy of exact size: a sanitizer sees every byte behind the end.
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
