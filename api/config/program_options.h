// Command-line functions that svcmapd and svcmap-kube share.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace svcmap::api {

// Parses the command line. After --help, --version or a usage error, prints the output or the error
// and returns the exit code.
std::optional<int> Parse(CLI::App& app, int argc, char** argv);

// Parsed options of a program. After --help, --version or a usage error, the output or the error
// was printed, and `exit` is the exit code.
template <typename Options>
struct Parsed {
  Options options;
  std::optional<int> exit;
};

// Prints each line of an error to stderr. Returns the exit code of usage errors.
int UsageError(const char* program, const absl::Status& error);

// Returns the name of this node: `name`, or the host name if `name` is empty. The result is trimmed
// and in lower case (S-29).
std::string NodeName(std::string name);

// Converts klog's verbosity to the number of -v flags. The result is 0 for levels 0 to 3, 1 for
// levels 4 and 5, and 2 for higher levels. Kubernetes components use level 4 and higher for debug
// messages.
int VerbosityOf(int klog_verbosity);

}  // namespace svcmap::api
