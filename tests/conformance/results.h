// Results of tests, as tests/support/test_results.cc writes them, and whether they count as
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
  // Adds the content of a results file of `program`. InvalidArgument if a line has another form.
  absl::Status Add(const std::string& program, std::string_view content);

  // Why `test` of `program` (a name as TestName() makes them) does not count as evidence: it did
  // not run, did not pass, or made no assertion. All its parameters have to count. Empty if it
  // counts.
  std::string WhyNotCounted(const std::string& program, const std::string& test) const;

 private:
  // The first reason of each test, by program and name.
  std::map<std::pair<std::string, std::string>, std::string> reasons_;
};

// What ctest left in a folder. `entries` are the names of ctest entries: a program, or one shard of
// it such as "packet_test.2".
struct ResultsFolder {
  Results results;
  std::vector<std::string>
      missing;  // Entries that have not finished since their program was built.
};

// Reads one file for each entry from `folder`. `programs` is the folder of the test programs.
absl::Status ReadResults(const std::string& folder, const std::string& programs,
                         const std::vector<std::string>& entries, ResultsFolder& found);

// "packet_test" for "packet_test.2".
std::string ProgramOf(std::string_view entry);

}  // namespace svcmap::conformance
