// What a Service says about who may use it and which endpoints they get. Pure functions.
#pragma once

#include "api/convert/report.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

// Fills the traffic policies (S-10), the health check port (S-13) and the session affinity (S-14),
// or refuses: unknown words and numbers out of range.
void ConvertPolicies(const v1::ServiceSpec& spec, proxy::Service& service, Report& report);

// Fills service.source_ranges (S-11), and warns about load balancer IPs that stay open to everybody
// although there are ranges (S-12). After the addresses of `service`.
void ConvertSourceRanges(const v1::ServiceSpec& spec, proxy::Service& service, Report& report);

}  // namespace svcmap::api
