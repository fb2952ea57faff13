// Converts how the endpoints of a Service are selected for new connections. Pure functions.
#pragma once

#include "api/convert/report.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

// Fills service.pick_by and service.pick_table_size from the fields of the spec, or from the
// annotations if the fields are absent. Rejects invalid fields. Warns about invalid annotations,
// because Kubernetes does not validate annotations. The session affinity and the ports of `service`
// must already be converted.
void ConvertEndpointPick(const v1::Service& message, proxy::Service& service, Report& report);

}  // namespace svcmap::api
