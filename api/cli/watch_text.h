// Formats the output of `svcmapctl watch` in the style of the agent's log: an event, then key=value
// fields. Pure functions.
#pragma once

#include <string>

#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Returns one line for an event, except that an event with findings has one line for each finding.
// If events were lost, an additional first line contains the number of lost events.
std::string WatchText(const v1::WatchEvent& event);

}  // namespace svcmap::api
