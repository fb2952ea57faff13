// Which options a program has, for tests that run with versions of it that differ in them.
#pragma once

#include <string>

namespace svcmap::testing {

// Whether `program --help` names `flag`. The program is asked once.
bool ProgramKnows(const std::string& program, const std::string& flag);

}  // namespace svcmap::testing
