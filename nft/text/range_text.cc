#include "nft/text/range_text.h"

#include <algorithm>
#include <vector>

#include "nft/types/ip_address.h"

namespace svcmap::nft {
namespace {

// The key before `end`; of no end, and of the impossible end 0, the highest.
std::vector<uint8_t> LastKey(std::span<const uint8_t> end, size_t size) {
  if (end.size() != size) return std::vector<uint8_t>(size, 0xff);
  std::vector<uint8_t> last(end.begin(), end.end());
  for (size_t i = last.size(); i-- > 0;) {
    if (last[i]-- != 0) break;
  }
  return last;
}

}  // namespace

std::string RangeText(std::span<const Field> fields, std::span<const uint8_t> start,
                      std::span<const uint8_t> end) {
  const std::vector<uint8_t> last = LastKey(end, start.size());
  const std::string first_text = FieldsToText(fields, start);
  if (std::equal(start.begin(), start.end(), last.begin())) return first_text;
  const bool address = fields[0] == Field::kIpv4Addr || fields[0] == Field::kIpv6Addr;
  const auto first_address = IpAddress::FromBytes(start);
  if (address && first_address && start.size() == FieldSize(fields[0])) {
    for (unsigned length = 0; length < start.size() * 8; ++length) {
      const IpPrefix prefix(*first_address, static_cast<uint8_t>(length));
      if (prefix.address() == *first_address && prefix.Last() == IpAddress::FromBytes(last)) {
        return prefix.ToString();
      }
    }
  }
  return first_text + "-" + FieldsToText(fields, last);
}

}  // namespace svcmap::nft
