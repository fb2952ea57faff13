#include "nft/text/range_text.h"

#include <algorithm>
#include <vector>

#include "nft/types/ip_address.h"

namespace svcmap::nft {
namespace {

// Returns the last key before `end`. If `end` is empty or zero, returns the highest key.
std::vector<uint8_t> LastKey(std::span<const uint8_t> end, size_t size) {
  if (end.size() != size) return std::vector<uint8_t>(size, 0xff);
  std::vector<uint8_t> last(end.begin(), end.end());
  for (size_t i = last.size(); i-- > 0;) {
    if (last[i]-- != 0) break;
  }
  return last;
}

// Prints a range of one field from `first` to `last`, both inclusive.
std::string ClosedRangeText(std::span<const Field> fields, std::span<const uint8_t> first,
                            std::span<const uint8_t> last) {
  const std::string first_text = FieldsToText(fields, first);
  if (std::equal(first.begin(), first.end(), last.begin())) return first_text;
  const bool address = fields[0] == Field::kIpv4Addr || fields[0] == Field::kIpv6Addr;
  const auto first_address = IpAddress::FromBytes(first);
  if (address && first_address && first.size() == FieldSize(fields[0])) {
    for (unsigned length = 0; length < first.size() * 8; ++length) {
      const IpPrefix prefix(*first_address, static_cast<uint8_t>(length));
      if (prefix.address() == *first_address && prefix.Last() == IpAddress::FromBytes(last)) {
        return prefix.ToString();
      }
    }
  }
  return first_text + "-" + FieldsToText(fields, last);
}

}  // namespace

std::string RangeText(std::span<const Field> fields, std::span<const uint8_t> start,
                      std::span<const uint8_t> end) {
  return ClosedRangeText(fields, start, LastKey(end, start.size()));
}

std::string RangesText(std::span<const Field> fields, std::span<const uint8_t> first,
                       std::span<const uint8_t> last) {
  std::string text;
  size_t offset = 0;
  for (const Field& field : fields) {
    if (!text.empty()) text += " . ";
    const size_t size = FieldSize(field);
    text += ClosedRangeText({&field, 1}, first.subspan(offset, size), last.subspan(offset, size));
    offset += PaddedFieldSize(field);
  }
  return text;
}

}  // namespace svcmap::nft
