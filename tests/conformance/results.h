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

// Result files that ctest left in a directory. `entries` are the names of ctest entries: a program,
// or one shard of a program such as "packet_test.2".
struct ResultsFolder {
  Results results;
  // ctest entries that have not finished a run since their program was built.
  std::vector<std::string> missing;
};

// Reads the results file of each ctest entry from `folder`. `programs` is the directory of the test
// programs.
absl::Status ReadResults(const std::string& folder, const std::string& programs,
                         const std::vector<std::string>& entries, ResultsFolder& found);

// Returns the program of a ctest entry, for example "packet_test" for "packet_test.2".
std::string ProgramOf(std::string_view entry);

}  // namespace svcmap::conformance
