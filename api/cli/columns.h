// What the tables of `get` show of each kind. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

std::vector<std::string> ColumnsOf(v1::Kind kind);
std::vector<std::string> CellsOf(const v1::Object& object);  // One per column of its kind.

}  // namespace svcmap::api
