// Parses the command line of svcmapctl and produces its help. Pure function: environment variables
// are passed as arguments.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "api/cli/options.h"

namespace svcmap::api {

// Output of --help, --version or completion.
struct HelpText {
  std::string text;
  bool is_script = false;  // True if long lines must not be broken.
};

// Parses `args`, which does not contain the program name. `address_from_env` is the value of
// $SVCMAP_ADDRESS or empty. The error message is one line with the argument, its value and the
// accepted values.
absl::StatusOr<std::variant<Options, HelpText>> ParseCommandLine(
    const std::vector<std::string>& args, const std::string& address_from_env);

}  // namespace svcmap::api
