// The command line of svcmapctl, and the help it prints. No effects; the environment is an
// argument.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "api/cli/options.h"

namespace svcmap::api {

// Text that was asked for instead of a command: help or version.
struct HelpText {
  std::string text;
};

// `args` without the program's name; `address_from_env` is $SVCMAP_ADDRESS, or empty. The error is
// one line that names the argument, its value and what would be right.
absl::StatusOr<std::variant<Options, HelpText>> ParseCommandLine(
    const std::vector<std::string>& args, const std::string& address_from_env);

}  // namespace svcmap::api
