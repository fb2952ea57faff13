// Converts spec.ports of a Service. Pure function.
#pragma once

#include "api/convert/report.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

// Fills service.ports. Rejects the Service if a number is out of range, a protocol is unknown, or a
// name is missing or duplicate. Also rejects duplicate pairs of port and protocol, or of nodePort
// and protocol.
void ConvertServicePorts(const v1::ServiceSpec& spec, proxy::Service& service, Report& report);

}  // namespace svcmap::api
