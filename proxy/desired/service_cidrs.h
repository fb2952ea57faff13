// The rows that do not come from Services: the address ranges that Services get theirs from. Pure.
#pragma once

#include <vector>

#include "proxy/desired/rows.h"

namespace svcmap::proxy {

// The union of `prefixes` as disjoint ranges, each a start and, unless it reaches the last address,
// an element for the address behind it.
std::vector<Row> ServiceCidrRows(const std::vector<IpPrefix>& prefixes);

}  // namespace svcmap::proxy
