// Lines of svcmapctl watch, in the words of the agent's log. Pure functions.
#pragma once

#include <string>

#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// One line, or one for each finding; before it one that says how many events were lost, if any.
std::string WatchText(const v1::WatchEvent& event);

}  // namespace svcmap::api
