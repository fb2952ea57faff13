// Limits the number of map elements of one Service. Pure function.
#pragma once

#include <cstddef>

#include "api/convert/report.h"
#include "proxy/state/objects.h"

namespace svcmap::api {

// Maximum number of ports times addresses of a Service for each IP family. A port range counts as
// proxy::PortElementCount() ports. Each port has one map element for each clusterIP, externalIP and
// load balancer IP. A few kilobytes of ports and addresses can multiply to millions of map
// elements: a Service with 5 million elements used 2 GB of memory, and each commit took 15 s. A
// Service can use all 65,535 ports of a protocol at one address of each family.
inline constexpr size_t kMaxPortsTimesAddresses = 65'536;

// Rejects the Service if a family exceeds kMaxPortsTimesAddresses. Call after all ports and
// addresses are converted. nodePorts do not count, because the operator selects the node addresses.
void CheckServiceSize(const proxy::Service& service, Report& report);

}  // namespace svcmap::api
