#include "proxy/desired/service_cidrs.h"

#include <algorithm>
#include <array>
#include <optional>

#include "proxy/ruleset/table.h"

namespace svcmap::proxy {
namespace {

// Nothing behind the last address of a family.
std::optional<IpAddress> Next(const IpAddress& address) {
  std::array<uint8_t, 16> bytes = {};
  std::copy(address.bytes().begin(), address.bytes().end(), bytes.begin());
  for (size_t i = address.size(); i-- > 0;) {
    if (++bytes[i] != 0) return IpAddress::FromBytes({bytes.data(), address.size()});
  }
  return std::nullopt;
}

Row BoundRow(const IpAddress& address, bool interval_end) {
  Row row;
  row.set = {address.family(), kServiceCidrs};
  row.key.Append(address.bytes());
  row.interval_end = interval_end;
  return row;
}

}  // namespace

std::vector<Row> ServiceCidrRows(const std::vector<IpPrefix>& prefixes) {
  struct Range {
    IpAddress first, last;
  };
  std::vector<Range> ranges;
  ranges.reserve(prefixes.size());
  for (const IpPrefix& prefix : prefixes) ranges.push_back({prefix.address(), prefix.Last()});
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  std::vector<Range> merged;
  for (const Range& range : ranges) {
    if (!merged.empty() && merged.back().last.family() == range.first.family()) {
      const std::optional<IpAddress> behind = Next(merged.back().last);
      if (!behind || range.first <= *behind) {
        merged.back().last = std::max(merged.back().last, range.last);
        continue;
      }
    }
    merged.push_back(range);
  }
  std::vector<Row> rows;
  for (const Range& range : merged) {
    rows.push_back(BoundRow(range.first, false));
    if (const std::optional<IpAddress> behind = Next(range.last)) {
      rows.push_back(BoundRow(*behind, true));
    }
  }
  return rows;
}

}  // namespace svcmap::proxy
