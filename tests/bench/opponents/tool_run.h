// Runs the programs that kube-proxy runs, as it runs them: text on standard input, nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/support/netns.h"

namespace svcmap::bench {

struct ToolRun {
  double seconds = 0;         // From before the fork until the program is reaped.
  double cpu_seconds = 0;     // User and system, with the processes that it waited for.
  int64_t peak_rss_kib = -1;  // Negative if it cannot be traced.
};

// argv[0] is looked up in PATH. Any exit but 0 is an error that quotes the first lines of standard
// error; NotFound if there is no such program, DeadlineExceeded if it takes longer than
// `limit` (it is killed then). The program dies with the calling thread. Standard output is thrown
// away.
absl::StatusOr<ToolRun> RunTool(const std::vector<std::string>& argv, const std::string& stdin_text,
                                const testing::NetNs& netns, std::chrono::seconds limit);

}  // namespace svcmap::bench
