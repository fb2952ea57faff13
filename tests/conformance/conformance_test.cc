// docs/conformance.md is generated from the tables here and the names of all tests;
// SVCMAP_UPDATE_DOCS=1 rewrites it. It fails where a requirement has neither a test nor a reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/conformance/tables.h"
#include "tests/conformance/test_list.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace svcmap::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TestListTest, RequirementsStandBeforeAWord) {
  EXPECT_THAT(RequirementsIn("ATest.S10_Text"), ElementsAre(10));
  EXPECT_THAT(RequirementsIn("ATest.S10_S12_Text"), ElementsAre(10, 12));
  EXPECT_THAT(RequirementsIn("ATest.S10S12Text"), ElementsAre(10, 12));
  EXPECT_THAT(RequirementsIn("ATest.Row/S10ToS12_Text"), ElementsAre(10, 11, 12));
  EXPECT_THAT(RequirementsIn("ATest.TheS3Bucket"), IsEmpty());
  EXPECT_THAT(RequirementsIn("ATest.S3"), ElementsAre(3));
  EXPECT_THAT(RequirementsIn("ATest.Something"), IsEmpty());
}

TEST(TestListTest, ListingsAreRead) {
  TestList tests;
  AddTests(
      "Running main() from gmock_main.cc\n"
      "PlainTest.\n"
      "  S1_Text\n"
      "  DISABLED_S2_Text\n"
      "All/FlowTest.  # TypeParam = int\n"
      "  Row/S74_IPv4_Text  # GetParam() = (false, 16-byte object)\n"
      "  Row/S74_IPv6_Text  # GetParam() = (true, 16-byte object)\n"
      "  Other/IPv4_tcp  # GetParam() = (false, 4-byte object)\n",
      tests);
  EXPECT_THAT(tests.names,
              ElementsAre("FlowTest.Other", "FlowTest.Row/S74_*_Text", "PlainTest.S1_Text"));
  EXPECT_THAT(tests.by_requirement[1], ElementsAre("PlainTest.S1_Text"));
  EXPECT_THAT(tests.by_requirement[74], ElementsAre("FlowTest.Row/S74_*_Text"));
  EXPECT_EQ(tests.by_requirement.size(), 2);
}

// All tests of all programs.
class ConformanceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const auto& program : absl::StrSplit(SVCMAP_TEST_PROGRAMS, ':')) {
      const auto listing = testing::RunOk({.argv = {std::string(program), "--gtest_list_tests"}});
      ASSERT_OK(listing);
      AddTests(*listing, tests_);
    }
  }

  // Of a list separated by blanks. Names that no program has are failures.
  static std::set<std::string> Known(std::string_view names, std::string_view whose) {
    std::set<std::string> known;
    for (const auto& piece : absl::StrSplit(std::string(names), ' ', absl::SkipEmpty())) {
      const std::string name(piece);
      EXPECT_EQ(tests_.names.count(name), 1u) << std::string(whose) << ": no test " << name;
      known.insert(name);
    }
    return known;
  }

  static std::string Cell(const std::set<std::string>& names) {
    return names.empty() ? "" : absl::StrCat("`", absl::StrJoin(names, "`, `"), "`");
  }

  static inline TestList tests_;
};

TEST_F(ConformanceTest, NoTestCitesARequirementThatIsNot) {
  for (const auto& [number, names] : tests_.by_requirement) {
    EXPECT_TRUE(number >= 1 && number <= 362) << number << ": " << absl::StrJoin(names, " ");
  }
}

TEST_F(ConformanceTest, EveryRequirementHasATestOrAReasonAndTheDocsSayIt) {
  int shown = 0, different = 0, open = 0, number = 0;
  std::string sections;
  for (const Section& section : Sections()) {
    absl::StrAppend(&sections, "\n## ", std::string(section.title),
                    "\n\n| | What | Shown by |\n| --- | --- | --- |\n");
    for (const Requirement& row : section.requirements) {
      EXPECT_EQ(row.number, ++number) << "the table has a gap";
      const std::string name = absl::StrCat("S-", row.number);
      std::set<std::string> names = Known(row.shown_by, name);
      names.merge(std::set(tests_.by_requirement[row.number]));
      std::vector<std::string> cell;
      if (!row.differs.empty()) cell.push_back(absl::StrCat("differs: ", std::string(row.differs)));
      if (!row.later.empty()) {
        cell.push_back(absl::StrCat("open: comes with ", std::string(row.later)));
        EXPECT_TRUE(names.empty()) << name << " has tests, it is no longer open";
      }
      if (!names.empty()) cell.push_back(Cell(names));
      EXPECT_FALSE(cell.empty()) << name << " has neither a test nor a reason";
      ++(!row.later.empty() ? open : !row.differs.empty() ? different : shown);
      absl::StrAppend(&sections, "| ", name, " | ", std::string(row.title), " | ",
                      absl::StrJoin(cell, "; "), " |\n");
    }
  }
  sections +=
      "\n## Kubernetes' own end-to-end tests\n\n| Area | Test | Ours |\n| --- | --- | --- |\n";
  for (const UpstreamTest& row : UpstreamTests()) {
    EXPECT_NE(row.ours.empty(), row.why_none.empty()) << row.what;
    const std::string ours = Cell(Known(row.ours, row.what));
    absl::StrAppend(&sections, "| ", std::string(row.area), " | ", std::string(row.what), " | ",
                    ours.empty() ? "none: " + std::string(row.why_none) : ours, " |\n");
  }
  const std::string wanted = absl::StrCat(
      "# Conformance\n\n"
      "Which test shows which requirement of the behaviour specification (kube-proxy 1.36, "
      "nftables\n"
      "mode), and where svcmap deliberately differs. Generated from `tests/conformance/` and the "
      "names\n"
      "of all tests: a test shows the requirements whose numbers its name carries. Change things "
      "there\n"
      "and run `conformance_test` with `SVCMAP_UPDATE_DOCS=1`. A name works as a `--gtest_filter`, "
      "with\n"
      "`/*` behind it for tests that have parameters.\n\n",
      number, " requirements: ", shown, " as specified, ", different, " different on purpose, ",
      open, " open.\n", sections);

  const std::string path = SVCMAP_SOURCE_DIR "/docs/conformance.md";
  if (std::getenv("SVCMAP_UPDATE_DOCS") != nullptr) std::ofstream(path) << wanted;
  std::ifstream file(path);
  const std::string found{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_TRUE(found == wanted) << path << " is stale: run this test with SVCMAP_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace svcmap::conformance
