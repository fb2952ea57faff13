// Columns that `svcmapctl get` prints for each kind. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Column headings. `wide` includes the columns that only `-o wide` prints.
std::vector<std::string> ColumnsOf(v1::Kind kind, bool wide);
// Returns the cells of one row in the order of ColumnsOf.
std::vector<std::string> CellsOf(const v1::Object& object, bool wide);

}  // namespace svcmap::api
