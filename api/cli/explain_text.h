// Formats the agent's response to Explain as text. Pure function.
#pragma once

#include <string>

#include "api/cli/session.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Prints the requirement numbers of a step in brackets if the step has any. On a terminal, omits
// steps with details, kube-proxy's chains, and endpoints that do not fit on the screen, unless
// `complete` is set.
std::string ExplainText(const v1::ExplainResponse& response, bool complete,
                        const TerminalSize& screen);

}  // namespace svcmap::api
