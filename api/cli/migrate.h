// Formats the output of `svcmapctl migrate check`. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "api/migration/findings.h"

namespace svcmap::api {

std::string FindingsText(const std::vector<MigrationFinding>& findings);
std::string FindingsJson(const std::vector<MigrationFinding>& findings);

}  // namespace svcmap::api
