// Address ranges, as interval sets want them: disjoint. Pure.
#pragma once

#include <vector>

#include "nft/types/ip_address.h"
#include "proxy/desired/rows.h"

namespace svcmap::proxy {

// The union of `prefixes`, ascending, as few ranges as can be.
std::vector<AddressRange> MergeRanges(const std::vector<IpPrefix>& prefixes);

// All addresses of the family outside of `prefix`.
std::vector<AddressRange> Outside(const IpPrefix& prefix);

// As rows of a set with addresses as its only field: each range a start and, unless it reaches the
// last address, an element for the address behind it.
std::vector<Row> RangeRows(SetIndex set, const std::vector<AddressRange>& ranges);

}  // namespace svcmap::proxy
