// Parses the command line of svcmapctl, and runs svcmapctl as a function, for main() and for tests.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/cli/options.h"
#include "api/cli/session.h"

namespace svcmap::api {

// Runs one command line and returns the exit code. `args` does not contain the program name. Reads
// $SVCMAP_ADDRESS. If writing to `out` fails, commands that list objects stop early, but all other
// commands run to completion. On a terminal, `screen` is the size of the terminal.
int Run(const std::vector<std::string>& args, std::istream& in, std::ostream& out,
        std::ostream& err, TerminalSize screen = {});

// Parses `args` without environment variables. `address_from_env` is the value of $SVCMAP_ADDRESS
// or empty. The error message is one line with the argument, its value and the accepted values.
absl::StatusOr<Options> ParseCommandLine(const std::vector<std::string>& args,
                                         const std::string& address_from_env);

}  // namespace svcmap::api
