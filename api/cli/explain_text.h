// Formats the agent's response to Explain as text. Pure function.
#pragma once

#include <string>

#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Prints the requirement numbers of a step in brackets if the step has any.
std::string ExplainText(const v1::ExplainResponse& response);

}  // namespace svcmap::api
