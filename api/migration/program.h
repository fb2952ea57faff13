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

// Returns the standard output of the program if its exit status is 0. If the program fails, returns
// an error with the name of the program and the last line of its standard error. Kills the program
// after 60 s or if `stop` is requested.
absl::StatusOr<std::string> RunProgram(const std::vector<std::string>& argv,
                                       std::string_view input = "",
                                       const std::stop_token& stop = {});

// Runs `svcmapd --preflight` and returns its output for ParseNodeReport. svcmapd is searched for in
// the directory of the calling program, and then like other programs. Returns NotFound if svcmapd
// is missing.
absl::StatusOr<std::string> RunPreflight();

}  // namespace svcmap::api
