// What svcmapctl migrate check prints. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "api/migration/findings.h"

namespace svcmap::api {

std::string FindingsText(const std::vector<Finding>& findings);  // A page.
std::string FindingsJson(const std::vector<Finding>& findings);

}  // namespace svcmap::api
