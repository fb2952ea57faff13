// Runs a program under valgrind and returns the number of instructions for each part that the
// program marked with CALLGRIND_DUMP_STATS_AT. The numbers do not depend on the load of the
// machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap::instructions {

absl::StatusOr<std::map<std::string, uint64_t>> CountInstructions(
    const std::vector<std::string>& command);

}  // namespace svcmap::instructions
