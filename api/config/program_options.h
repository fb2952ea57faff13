// Command-line functions that svcmapd and svcmap-kube share.
#pragma once

#include <string>
#include <vector>

namespace svcmap::api {

// Returns the arguments in reverse order, which CLI11 expects. Splits "--option=" into "--option"
// and "", because CLI11 reads "--option=" as an option without a value.
std::vector<std::string> ReversedArguments(int argc, char** argv);

// Returns the name of this node: `name`, or the host name if `name` is empty. The result is trimmed
// and in lower case (S-29).
std::string NodeName(std::string name);

// Converts klog's verbosity to the number of -v flags. The result is 0 for levels 0 to 3, 1 for
// levels 4 and 5, and 2 for higher levels. Kubernetes components use level 4 and higher for debug
// messages.
int VerbosityOf(int klog_verbosity);

}  // namespace svcmap::api
