// Explain's answer for people. Pure.
#pragma once

#include <string>

#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

std::string ExplainText(const v1::ExplainResponse& response);  // A page.

}  // namespace svcmap::api
