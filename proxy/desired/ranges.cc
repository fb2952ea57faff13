#include "proxy/desired/ranges.h"

#include <algorithm>
#include <array>
#include <optional>

namespace svcmap::proxy {
namespace {

std::optional<IpAddress> Neighbour(const IpAddress& address, int by) {
  std::array<uint8_t, 16> bytes = {};
  std::copy(address.bytes().begin(), address.bytes().end(), bytes.begin());
  const uint8_t carried = by > 0 ? 0x00 : 0xff;
  for (size_t i = address.size(); i-- > 0;) {
    bytes[i] = static_cast<uint8_t>(bytes[i] + by);
    if (bytes[i] != carried) return IpAddress::FromBytes({bytes.data(), address.size()});
  }
  return std::nullopt;
}

// Next returns nullopt for the family's last address. Previous returns nullopt for the family's
// first address.
std::optional<IpAddress> Next(const IpAddress& address) { return Neighbour(address, 1); }
std::optional<IpAddress> Previous(const IpAddress& address) { return Neighbour(address, -1); }

}  // namespace

std::vector<AddressRange> MergeRanges(const std::vector<IpPrefix>& prefixes) {
  std::vector<AddressRange> ranges;
  ranges.reserve(prefixes.size());
  for (const IpPrefix& prefix : prefixes) ranges.push_back({prefix.address(), prefix.Last()});
  std::ranges::sort(ranges, {}, &AddressRange::first);
  std::vector<AddressRange> merged;
  for (const AddressRange& range : ranges) {
    if (!merged.empty() && merged.back().last.family() == range.first.family()) {
      const std::optional<IpAddress> behind = Next(merged.back().last);
      if (!behind || range.first <= *behind) {
        merged.back().last = std::max(merged.back().last, range.last);
        continue;
      }
    }
    merged.push_back(range);
  }
  return merged;
}

std::vector<AddressRange> Outside(const IpPrefix& prefix) {
  const IpPrefix everything(prefix.address(), 0);
  std::vector<AddressRange> ranges;
  if (const auto last = Previous(prefix.address())) ranges.push_back({everything.address(), *last});
  if (const auto first = Next(prefix.Last())) ranges.push_back({*first, everything.Last()});
  return ranges;
}

std::vector<Row> RangeRows(SetIndex set, const std::vector<AddressRange>& ranges) {
  std::vector<Row> rows;
  const auto add = [&](const IpAddress& address, bool end) {
    rows.push_back({.set = {address.family(), set},
                    .key = nft::FieldBytes().Append(address.bytes()),
                    .interval_end = end});
  };
  for (const AddressRange& range : ranges) {
    add(range.first, false);
    if (const std::optional<IpAddress> behind = Next(range.last)) add(*behind, true);
  }
  return rows;
}

}  // namespace svcmap::proxy
