// Writes the result of each test of a program and the number of its assertions to the file that
// SVCMAP_TEST_RESULTS names; one line for each test: "passed 12 Suite.Test". Instead of "passed"
// there may be "failed" or "skipped". ctest sets the variable; tests/conformance reads the files.
// The file appears when the program has finished, so a program that crashed has none.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/assertion_count.h"

namespace svcmap::testing {
namespace {

std::atomic<int64_t> assertions_made{0};

class ResultWriter : public ::testing::EmptyTestEventListener {
 public:
  explicit ResultWriter(std::string path) : path_(std::move(path)) {}

  void OnTestProgramStart(const ::testing::UnitTest&) override { std::remove(path_.c_str()); }

  void OnTestStart(const ::testing::TestInfo&) override { assertions_made = 0; }

  void OnTestEnd(const ::testing::TestInfo& test) override {
    const ::testing::TestResult& result = *test.result();
    lines_ << (result.Skipped()  ? "skipped"
               : result.Passed() ? "passed"
                                 : "failed")
           << ' ' << assertions_made << ' ' << test.test_suite_name() << '.' << test.name() << '\n';
  }

  void OnTestProgramEnd(const ::testing::UnitTest&) override {
    const std::string unfinished = path_ + ".unfinished";
    std::ofstream file(unfinished);
    file << lines_.str();
    file.close();
    if (!file || std::rename(unfinished.c_str(), path_.c_str()) != 0) {
      std::perror(("cannot write test results to " + path_).c_str());
    }
  }

 private:
  const std::string path_;
  std::ostringstream lines_;
};

// Part of a program because its assertions need CountAssertion().
const bool registered = [] {
  const char* path = std::getenv("SVCMAP_TEST_RESULTS");
  if (path == nullptr || *path == '\0') return false;
  ::testing::UnitTest::GetInstance()->listeners().Append(new ResultWriter(path));
  unsetenv("SVCMAP_TEST_RESULTS");  // Programs that a test starts do not write to the same file.
  return true;
}();

}  // namespace

int CountAssertion() {
  assertions_made.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

}  // namespace svcmap::testing
