// Writes the results of a test program to the file named by SVCMAP_TEST_RESULTS. Each line contains
// the result of a test, its number of assertions and its name, for example "passed 12 Suite.Test".
// The result is "passed", "failed" or "skipped". ctest sets the variable, and tests/conformance
// reads the files. The file is written when the program exits, so a crashed program has no file.
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

// The linker includes this object file because the program's assertions need CountAssertion().
const bool registered = [] {
  const char* path = std::getenv("SVCMAP_TEST_RESULTS");
  if (path == nullptr || *path == '\0') return false;
  ::testing::UnitTest::GetInstance()->listeners().Append(new ResultWriter(path));
  // Prevent child processes of a test from writing to the same file.
  unsetenv("SVCMAP_TEST_RESULTS");
  return true;
}();

}  // namespace

int CountAssertion() {
  assertions_made.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

}  // namespace svcmap::testing
