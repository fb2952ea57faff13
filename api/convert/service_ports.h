// Converts spec.ports of a Service. Pure function.
#pragma once

#include "api/convert/report.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

// Fills service.ports. Rejects the Service if a number is out of range, a protocol is unknown, a
// name is missing or duplicate, or a pair of (port, protocol) or (nodePort, protocol) is duplicate.
void ConvertServicePorts(const v1::ServiceSpec& spec, proxy::Service& service, Report& report);

}  // namespace svcmap::api
