// What the tables of `get` show of each kind. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// `wide`: more columns, where a kind has more to show.
std::vector<std::string> ColumnsOf(v1::Kind kind, bool wide);
// One per column of its kind.
std::vector<std::string> CellsOf(const v1::Object& object, bool wide);

}  // namespace svcmap::api
