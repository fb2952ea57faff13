// Generates docs/conformance.md from docs/specification.md, the names of all tests and the tables
// in this directory, and compares the generated text with the existing file. SVCMAP_UPDATE_DOCS=1
// rewrites docs/conformance.md. Also checks that the listed tests ran, passed and made assertions.
// `make test` runs this program after all other programs.
//
// Programs that are not built or have no results are reported but do not fail the check, so that a
// developer can run only a few programs. With SVCMAP_REQUIRE_TEST_RESULTS=1 (make test), they are a
// failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/conformance/coverage.h"
#include "tests/conformance/results.h"
#include "tests/conformance/specification.h"
#include "tests/conformance/tables.h"
#include "tests/conformance/test_list.h"
#include "tests/support/file.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace svcmap::conformance {
namespace {

using ::testing::IsEmpty;

std::vector<std::string> Split(const std::string& text, char separator) {
  return absl::StrSplit(text, separator, absl::SkipEmpty());
}

class ConformanceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::vector<std::string> results = Split(SVCMAP_TEST_RESULTS, ':');
    std::map<std::string, std::string> programs;  // Path by name.
    for (const std::string& path : results) {
      programs.try_emplace(ProgramOf(path), ProgramPathOf(path));
    }
    for (const auto& [program, path] : programs) {
      if (!std::filesystem::exists(path)) {
        unbuilt_.push_back(program);
        continue;
      }
      const auto listing = testing::RunOk({.argv = {path, "--gtest_list_tests"}});
      ASSERT_OK(listing);
      AddTests(program, *listing, tests_);
    }
    const auto sections =
        ParseSpecification(svcmap::testing::ReadFile(SVCMAP_SOURCE_DIR "/docs/specification.md"));
    ASSERT_OK(sections);
    sections_ = *sections;
    by_requirement_ = TestsOf(tests_, OtherTests());
    ASSERT_OK(ReadResults(results, found_));
  }

  // Returns the tests of each program as text, for example "program: `Suite.Test`, `Suite.Other`".
  static std::string Cell(const std::set<std::string>& names) {
    std::map<std::string, std::set<std::string>> by_program;
    for (const std::string& name : names) {
      const auto programs = tests_.programs.find(name);
      if (programs == tests_.programs.end()) continue;
      for (const std::string& program : programs->second) by_program[program].insert(name);
    }
    std::vector<std::string> parts;
    for (const auto& [program, of_program] : by_program) {
      parts.push_back(absl::StrCat(program, ": `", absl::StrJoin(of_program, "`, `"), "`"));
    }
    return absl::StrJoin(parts, "; ");
  }

  static std::string RequirementTables(std::map<std::string, int>& count) {
    std::string text;
    for (const Section& section : sections_) {
      absl::StrAppend(&text, "\n## ", section.title,
                      "\n\n| Requirement | Result | Tests |\n| --- | --- | --- |\n");
      for (const Requirement& row : section.requirements) {
        const auto found = by_requirement_.find(row.number);
        const std::set<std::string> names =
            found == by_requirement_.end() ? std::set<std::string>{} : found->second;
        const bool tested = !names.empty();
        const std::string result =
            absl::StrCat(tested ? "passed" : "not tested", row.differs ? ", differs" : "");
        ++count["all"];
        ++count[tested ? "passed" : "not tested"];
        if (row.differs) ++count["differs"];
        absl::StrAppend(&text, "| [S-", row.number, "](specification.md#s-", row.number, ") ",
                        row.title, " | ", result, " | ", Cell(names), " |\n");
      }
    }
    return text;
  }

  static std::string ProgramTable() {
    std::string text = "| Program | Labels in ctest |\n| --- | --- |\n";
    for (const std::string& program : Split(SVCMAP_TEST_PROGRAM_LABELS, ':')) {
      const std::vector<std::string> parts = Split(program, '=');
      absl::StrAppend(&text, "| ", parts.at(0), " | ", absl::StrJoin(Split(parts.at(1), ','), ", "),
                      " |\n");
    }
    return text;
  }

  static std::string UpstreamTable() {
    std::string text = "| Area | Test | svcmap's tests |\n| --- | --- | --- |\n";
    for (const UpstreamTest& row : UpstreamTests()) {
      const std::vector<std::string> ours = Split(std::string(row.ours), ' ');
      absl::StrAppend(&text, "| ", std::string(row.area), " | ", std::string(row.what), " | ",
                      ours.empty() ? absl::StrCat("none: ", std::string(row.why_none))
                                   : Cell({ours.begin(), ours.end()}),
                      " |\n");
    }
    return text;
  }

  static std::string Document() {
    std::map<std::string, int> count;
    const std::string requirements = RequirementTables(count);
    return absl::StrCat(
        "# Conformance\n\n"
        "Each requirement of the [specification](specification.md), its result and its tests.\n"
        "`tests/conformance/` generates this page from the specification and the names of all "
        "tests. "
        "To update it, run\n"
        "`SVCMAP_UPDATE_DOCS=1 build/release/tests/conformance_test`.\n\n"
        "- A test shows the requirements whose numbers are part of its name. Tests with other "
        "names are listed in\n"
        "  `tests/conformance/requirements.cc`.\n"
        "- **passed**: `make test` fails unless all tests of the row ran, passed, and made at "
        "least one assertion each.\n"
        "  Empty, failed and skipped tests do not count.\n"
        "- **differs**: svcmap deliberately behaves differently from kube-proxy. The tests show "
        "svcmap's behavior, and\n"
        "  the specification gives the reason.\n"
        "- **not tested**: the specification gives the reason.\n"
        "- `*` in a name stands for IPv4 and IPv6. A name is a `--gtest_filter` of its program; "
        "append `/*` to a test with\n  parameters.\n\n",
        count["all"], " requirements: ", count["passed"], " passed, ", count["not tested"],
        " not tested. ", count["differs"], " differ on purpose.\n", requirements,
        "\n## Kubernetes' own end-to-end tests\n\n", UpstreamTable(),
        "\n## Test programs\n\n"
        "`make test` runs all of these programs. CONTRIBUTING.md describes the labels. "
        "Programs labelled netns or\n"
        "contract use the kernel of the machine. Tests labelled nightly or long do not count "
        "here.\n\n",
        ProgramTable());
  }

  static std::set<std::string> WithoutResults() {
    std::set<std::string> programs;
    for (const std::string& entry : found_.missing) programs.insert(ProgramOf(entry));
    return programs;
  }

  static std::string MissingResults() {
    return absl::StrCat("no current results of ", absl::StrJoin(found_.missing, ", "),
                        "; `ctest --preset PRESET -R NAME` writes them");
  }

  // Reports programs that are not built. Returns false if there are any, because names of tests are
  // then unknown.
  static bool AllNamesAreKnown() {
    if (unbuilt_.empty()) return true;
    const std::string reason = absl::StrCat("not built: ", absl::StrJoin(unbuilt_, ", "));
    if (std::getenv("SVCMAP_REQUIRE_TEST_RESULTS") != nullptr) {
      ADD_FAILURE() << reason;
    } else {
      std::cout << "not judged, because some programs are " << reason << std::endl;
    }
    return false;
  }

  static inline std::vector<std::string> unbuilt_;
  static inline TestList tests_;
  static inline std::vector<Section> sections_;
  static inline TestsByRequirement by_requirement_;
  static inline ResultFiles found_;
};

TEST_F(ConformanceTest, TestsCiteExistingRequirements) {
  int last = 0;
  for (const Section& section : sections_) last = section.requirements.back().number;
  for (const auto& [number, names] : tests_.by_requirement) {
    EXPECT_TRUE(number >= 1 && number <= last) << number << ": " << absl::StrJoin(names, " ");
  }
}

TEST_F(ConformanceTest, UpstreamTestsHaveAnEquivalentOrAReason) {
  if (!AllNamesAreKnown()) return;
  for (const UpstreamTest& row : UpstreamTests()) {
    EXPECT_NE(row.ours.empty(), row.why_none.empty()) << row.what;
    for (const std::string& name : Split(std::string(row.ours), ' ')) {
      EXPECT_TRUE(tests_.programs.contains(name)) << row.what << ": there is no test " << name;
      for (const std::string& program : tests_.programs[name]) {
        if (WithoutResults().contains(program)) continue;
        EXPECT_EQ(found_.results.WhyNotCounted(program, name), "") << row.what;
      }
    }
  }
}

TEST_F(ConformanceTest, EveryRequirementIsShownByTestsThatRan) {
  if (!AllNamesAreKnown()) return;
  EXPECT_THAT(Uncovered(sections_, by_requirement_, tests_, found_.results, WithoutResults()),
              IsEmpty());
  if (found_.missing.empty()) return;
  if (std::getenv("SVCMAP_REQUIRE_TEST_RESULTS") != nullptr) {
    ADD_FAILURE() << MissingResults();
  } else {
    std::cout << "not judged: " << MissingResults() << std::endl;
  }
}

TEST_F(ConformanceTest, TheTableIsUpToDate) {
  if (!AllNamesAreKnown()) return;
  svcmap::testing::ExpectFile("docs/conformance.md", Document());
}

}  // namespace
}  // namespace svcmap::conformance
