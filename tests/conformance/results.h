// Test results in the format of tests/support/test_results.cc. Decides whether a test counts as
// evidence.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace svcmap::conformance {

class Results {
 public:
  // Adds the content of a results file of `program`. Returns InvalidArgument if a line has an
  // invalid format.
  absl::Status Add(const std::string& program, std::string_view content);

  // Returns the reason why `test` of `program` does not count as evidence. The test must run, pass,
  // and make an assertion. Returns an empty string if the test counts as evidence. `test` is a name
  // as returned by TestName(). A parameterized test counts as evidence only if it counts with each
  // parameter.
  std::string WhyNotCounted(const std::string& program, const std::string& test) const;

 private:
  // First reason why a test does not count as evidence, by program and test name.
  std::map<std::pair<std::string, std::string>, std::string> reasons_;
};

// Result files that ctest left. The path of such a file is BUILD/test-results/ENTRY. ENTRY is the
// name of a ctest entry: a program, or one shard of a program such as "packet_test.2".
struct ResultFiles {
  Results results;
  // Paths of ctest entries that have not finished a run since their program was built, or whose
  // program is not built.
  std::vector<std::string> missing;
};

// Reads the results files in `paths`. Several files can contain results of the same program: a
// program with shards, or one that runs in several suites.
absl::Status ReadResults(const std::vector<std::string>& paths, ResultFiles& found);

// Returns the program of the ctest entry with the results file `path`, for example "packet_test".
std::string ProgramOf(const std::string& path);

// Returns the path of this program, for example "BUILD/tests/packet_test".
std::string ProgramPathOf(const std::string& path);

}  // namespace svcmap::conformance
