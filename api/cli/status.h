// Formats the agent's state as text. Pure functions.
#pragma once

#include <string>

#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

std::string StateName(v1::State state);                       // "waiting for state"
std::string StatusLine(const v1::GetStatusResponse& status);  // "serving, revision 12"

}  // namespace svcmap::api
