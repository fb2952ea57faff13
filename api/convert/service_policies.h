// Converts the traffic policies, session affinity and source ranges of a Service. Pure functions.
#pragma once

#include "api/convert/report.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

// Fills the traffic policies (requirement S-10), the health check port (S-13) and the session
// affinity (S-14). Rejects unknown values and numbers that are out of range.
void ConvertPolicies(const v1::ServiceSpec& spec, proxy::Service& service, Report& report);

// Fills service.source_ranges (requirement S-11). Warns if no range has the IP family of a load
// balancer IP, because that load balancer IP accepts traffic from all sources (S-12). The addresses
// of `service` must already be converted.
void ConvertSourceRanges(const v1::ServiceSpec& spec, proxy::Service& service, Report& report);

}  // namespace svcmap::api
