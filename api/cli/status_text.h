// Formats the agent's status as text. Pure functions.
#pragma once

#include <string>

#include "api/cli/session.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

std::string StateName(v1::State state);                       // "waiting for state"
std::string StatusLine(const v1::GetStatusResponse& status);  // "serving, revision 12"

// Output of `svcmapctl status`. On a terminal, omits stages, maps and findings that do not fit on
// the screen, unless `verbose` is set.
std::string StatusText(const v1::GetStatusResponse& status, bool verbose,
                       const TerminalSize& screen);

}  // namespace svcmap::api
