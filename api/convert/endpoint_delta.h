// Changes of single endpoints. What can be seen in the delta alone is checked where it comes in;
// the rest where the slice is known, see ConvertDeltas in convert.h.
// Pure functions.
#pragma once

#include "api/convert/report.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Refuses missing and malformed names, and endpoints that no address identifies.
void CheckDelta(const v1::EndpointDelta& delta, Report& report);

}  // namespace svcmap::api
