// spec.ports of a Service. Pure function.
#pragma once

#include "api/convert/report.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

// Fills service.ports, or refuses: out of range, unknown protocol, missing or repeated names, and
// repeated (port, protocol) or (nodePort, protocol).
void ConvertServicePorts(const v1::ServiceSpec& spec, proxy::Service& service, Report& report);

}  // namespace svcmap::api
