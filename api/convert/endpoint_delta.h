// Checks EndpointDelta messages without the EndpointSlice to which the deltas apply. ConvertDeltas
// in convert.h checks the result of a delta. Pure functions.
#pragma once

#include "api/convert/report.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Rejects missing and malformed names, and endpoints without a valid first address.
void CheckDelta(const v1::EndpointDelta& delta, Report& report);

// Keeps only the names and the valid removals of a rejected delta. Without valid names, nothing
// remains.
void KeepRemovals(v1::EndpointDelta& delta);

}  // namespace svcmap::api
