// What the programs that run on a node do alike with their command lines. Pure, but for the host
// name.
#pragma once

#include <string>
#include <vector>

namespace svcmap::api {

// The arguments in reverse, as CLI11 wants them. It takes "--option=" for an option without a
// value: of two arguments the second may be empty.
std::vector<std::string> ReversedArguments(int argc, char** argv);

// Of this node: `name`, or the host name where it is empty; trimmed and lower case (S-29).
std::string NodeName(std::string name);

// How often -v would have to be given. Kubernetes' programs say what an operator wants at 0 to 3,
// and what a developer wants from 4.
int VerbosityOf(int klog_verbosity);

}  // namespace svcmap::api
