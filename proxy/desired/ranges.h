// Disjoint address ranges for interval sets. Pure functions.
#pragma once

#include <vector>

#include "nft/types/ip_address.h"
#include "proxy/desired/rows.h"

namespace svcmap::proxy {

// Returns the union of `prefixes` as the minimum number of ranges, ascending.
std::vector<AddressRange> MergeRanges(const std::vector<IpPrefix>& prefixes);

// Returns all addresses of the family outside `prefix`.
std::vector<AddressRange> Outside(const IpPrefix& prefix);

// Converts ranges to rows of a set with a single address field. Each range has a start row. A
// second row marks the first address after the range, unless the range ends at the family's last
// address.
std::vector<Row> RangeRows(SetIndex set, const std::vector<AddressRange>& ranges);

}  // namespace svcmap::proxy
