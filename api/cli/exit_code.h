// Exit codes of svcmapctl. Scripts depend on the numbers, which docs/svcmapctl.md documents.
#pragma once

#include <algorithm>

namespace svcmap::api {

enum class ExitCode : int {
  kOk = 0,
  kIncomplete = 1,         // An object was rejected or not found, or input or output failed.
  kUsage = 2,              // Invalid command line. No action was taken.
  kUnreachable = 3,        // No connection to the agent, or no response.
  kCallRejected = 4,       // The agent rejected the entire call.
  kWaitTimeout = 5,        // wait: the condition was not met in time.
  kKernelFailed = 6,       // The kernel rejected the change; the agent retries.
  kKernelDiffers = 7,      // explain: the kernel state differs or could not be read.
  kAttention = 8,          // migrate check: a finding needs attention.
  kConnectionDiffers = 9,  // check: a connection or flow differs from the prediction.
  kNotProgrammed = 10,     // The agent stores the change, but waits for a complete state.
};

// Returns the exit code of a command that consists of two parts with the exit codes `a` and `b`.
// The larger code takes precedence.
inline ExitCode Worse(ExitCode a, ExitCode b) { return std::max(a, b); }

}  // namespace svcmap::api
