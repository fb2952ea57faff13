// The rows that do not come from Services: node addresses and service address ranges. Pure.
#pragma once

#include <vector>

#include "proxy/desired/rows.h"

namespace svcmap::proxy {

// The union of `prefixes` as disjoint ranges, each a start and, unless it reaches the last address,
// an element for the address behind it.
std::vector<Row> ServiceCidrRows(const std::vector<IpPrefix>& prefixes);

std::vector<Row> NodePortIpRows(const std::vector<IpAddress>& addresses);

}  // namespace svcmap::proxy
