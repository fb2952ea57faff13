// Runs other people's programs, as iptables-save: short-lived, without a shell. Any thread.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap::api {

// Where `name` is: in a folder of $PATH, or in one where Linux keeps programs for root.
std::optional<std::string> FindProgram(const std::string& name);

// What it prints, when it ended with 0. The error says which program, and quotes the end of what it
// said on standard error; after a minute, or when asked to stop, it is killed.
absl::StatusOr<std::string> RunProgram(const std::vector<std::string>& argv,
                                       std::string_view input = "",
                                       const std::stop_token& stop = {});

}  // namespace svcmap::api
