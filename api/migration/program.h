// Runs short-lived external programs such as iptables-save, without a shell. Thread-safe.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap::api {

// Returns the path of program `name`. Searches $PATH and the usual directories for system programs.
std::optional<std::string> FindProgram(const std::string& name);

// Returns the path of svcmapd: in the directory of the calling program, or the result of
// FindProgram.
std::optional<std::string> FindSvcmapd();

// Returns the standard output of the program if its exit status is 0. If the program fails, returns
// an error with the name of the program and the last line of its standard error. Kills the program
// after 60 s or if `stop` is requested.
absl::StatusOr<std::string> RunProgram(const std::vector<std::string>& argv,
                                       std::string_view input = "",
                                       const std::stop_token& stop = {});

}  // namespace svcmap::api
