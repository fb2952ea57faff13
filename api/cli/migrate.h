// Formats the output of `svcmapctl migrate check`. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "api/migration/findings.h"

namespace svcmap::api {

std::string FindingsText(const std::vector<Finding>& findings);
std::string FindingsJson(const std::vector<Finding>& findings);

}  // namespace svcmap::api
