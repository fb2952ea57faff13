// What svcmapctl's exit code says. Scripts depend on the numbers: docs/svcmapctl.md lists them.
#pragma once

#include <algorithm>

namespace svcmap::api {

enum class ExitCode : int {
  kOk = 0,
  kIncomplete = 1,     // Some objects were refused or not found, some files or outputs failed.
  kUsage = 2,          // The command line is wrong; nothing was done.
  kUnreachable = 3,    // No connection to the agent, or no answer from it.
  kCallRefused = 4,    // The agent refused the call as a whole.
  kWaitTimeout = 5,    // What `wait` waits for did not come.
  kKernelFailed = 6,   // The agent holds the change, the kernel did not take it.
  kKernelDiffers = 7,  // The kernel is not, or is not known to be, as the agent wants it.
  kAttention = 8,      // Something on the node needs attention.
};

// What a command ends with that met both.
inline ExitCode Worse(ExitCode a, ExitCode b) { return std::max(a, b); }

}  // namespace svcmap::api
