// Runs a tool with text on standard input, as kube-proxy does.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/netns.h"

namespace svcmap::bench {

struct ToolRun {
  double seconds = 0;      // Time from vfork until the process is reaped, in seconds.
  double cpu_seconds = 0;  // User and system time of the process and its reaped child processes.
  // Peak memory of the process. Negative if the process could not be traced.
  int64_t peak_rss_kib = -1;
};

// Runs a tool. Searches for argv[0] in PATH. For a nonzero exit status, returns an error with the
// first lines of standard error. Returns NotFound if the executable does not exist. After `limit`,
// kills the process and returns DeadlineExceeded. The process is also killed when the calling
// thread exits. Standard output is discarded.
absl::StatusOr<ToolRun> RunTool(const std::vector<std::string>& argv, const std::string& stdin_text,
                                const testing::NetNs& netns, std::chrono::seconds limit);

}  // namespace svcmap::bench
