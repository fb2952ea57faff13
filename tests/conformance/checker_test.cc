// Tests of the conformance check itself. The sample program has an empty, a failing and a skipped
// test, each with a requirement number in its name. The conformance check accepts none of these
// three tests as evidence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/conformance/coverage.h"
#include "tests/conformance/results.h"
#include "tests/conformance/specification.h"
#include "tests/conformance/test_list.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(TestListTest, NumbersFollowASeparator) {
  EXPECT_THAT(RequirementsIn("ATest.S10_Text"), ElementsAre(10));
  EXPECT_THAT(RequirementsIn("ATest.S10_S12_Text"), ElementsAre(10, 12));
  EXPECT_THAT(RequirementsIn("ATest.S10S12Text"), ElementsAre(10, 12));
  EXPECT_THAT(RequirementsIn("ATest.Row/S10ToS12_Text"), ElementsAre(10, 11, 12));
  EXPECT_THAT(RequirementsIn("ATest.TheS3Bucket"), IsEmpty());
  EXPECT_THAT(RequirementsIn("ATest.S3"), ElementsAre(3));
  EXPECT_THAT(RequirementsIn("ATest.Something"), IsEmpty());
}

TEST(TestListTest, ParsesListings) {
  TestList tests;
  AddTests("a_test",
           "Running main() from gmock_main.cc\n"
           "PlainTest.\n"
           "  S1_Text\n"
           "  DISABLED_S2_Text\n"
           "All/FlowTest.  # TypeParam = int\n"
           "  Row/S74_IPv4_Text  # GetParam() = (false, 16-byte object)\n"
           "  Row/S74_IPv6_Text  # GetParam() = (true, 16-byte object)\n"
           "  Other/IPv4_tcp  # GetParam() = (false, 4-byte object)\n",
           tests);
  std::vector<std::string> names;
  for (const auto& [name, programs] : tests.programs) {
    names.push_back(name);
    EXPECT_THAT(programs, ElementsAre("a_test"));
  }
  EXPECT_THAT(names, ElementsAre("FlowTest.Other", "FlowTest.Row/S74_*_Text", "PlainTest.S1_Text"));
  EXPECT_THAT(tests.by_requirement[1], ElementsAre("PlainTest.S1_Text"));
  EXPECT_THAT(tests.by_requirement[74], ElementsAre("FlowTest.Row/S74_*_Text"));
  EXPECT_EQ(tests.by_requirement.size(), 2);
}

TEST(SpecificationTest, ParsesRequirements) {
  const auto sections = ParseSpecification(
      "# Title\n\n## Introduction\n\nText about S-1.\n\n"
      "## First\n\n"
      "<a id=\"s-1\"></a>**S-1 One thing.** Text\nwith two lines.\n\n"
      "### Subsection\n\n"
      "<a id=\"s-2\"></a>**S-2 Another thing.** Text. **Differs:** why.\n\n"
      "## Second\n\n"
      "<a id=\"s-3\"></a>**S-3 A third thing.** Text. **Not tested:** why.\n");
  ASSERT_OK(sections);
  ASSERT_EQ(sections->size(), 2u);
  EXPECT_EQ(sections->at(0).title, "First");
  ASSERT_EQ(sections->at(0).requirements.size(), 2u);
  EXPECT_EQ(sections->at(0).requirements[0].title, "One thing");
  EXPECT_FALSE(sections->at(0).requirements[0].differs);
  EXPECT_EQ(sections->at(0).requirements[1].number, 2);
  EXPECT_TRUE(sections->at(0).requirements[1].differs);
  ASSERT_EQ(sections->at(1).requirements.size(), 1u);
  EXPECT_TRUE(sections->at(1).requirements[0].not_tested);
}

TEST(SpecificationTest, RejectsGapsAndOtherForms) {
  const std::string section = "## Section\n\n";
  for (const std::string_view text :
       {"<a id=\"s-2\"></a>**S-2 Starts at two.** Text", "<a id=\"s-1\"></a>**S-2 Anchor.** Text",
        "<a id=\"s-1\"></a>**S-1** Text", "<a id=\"s-1\"></a>**S-1 No text.**",
        "Text <a id=\"s-1\"></a>**S-1 Title.** Text"}) {
    EXPECT_FALSE(ParseSpecification(absl::StrCat(section, std::string(text))).ok()) << text;
  }
  EXPECT_FALSE(ParseSpecification("<a id=\"s-1\"></a>**S-1 Title.** Outside of a section").ok());
}

// Test results and test names of the sample program.
class CoverageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = testing::TemporaryFolder::Make();
    ASSERT_OK(folder);
    const std::string path = folder->path() + "/results";
    const auto run = testing::RunCommand(
        {.argv = {SVCMAP_CONFORMANCE_SAMPLE}, .env = {"SVCMAP_TEST_RESULTS=" + path}});
    ASSERT_OK(run);
    EXPECT_EQ(run->exit.code, 1) << "two of the tests fail";
    std::ifstream file(path);
    lines_ = {std::istreambuf_iterator<char>(file), {}};
    ASSERT_OK(results_.Add("sample", lines_));
    const auto listing =
        testing::RunOk({.argv = {SVCMAP_CONFORMANCE_SAMPLE, "--gtest_list_tests"}});
    ASSERT_OK(listing);
    AddTests("sample", *listing, tests_);
  }

  std::vector<std::string> Problems(int number, const std::set<std::string>& without_results = {}) {
    Section section{.title = "Section", .requirements = {{.number = number, .title = "Title"}}};
    return Uncovered({section}, TestsOf(tests_, {}), tests_, results_, without_results);
  }

  std::string lines_;
  Results results_;
  TestList tests_;
};

TEST_F(CoverageTest, ATestThatAssertsCounts) { EXPECT_THAT(Problems(1), IsEmpty()); }

TEST_F(CoverageTest, AnEmptyTestWithTheRightNameDoesNotCount) {
  EXPECT_THAT(Problems(2), ElementsAre("S-2 Title: sample: SampleTest.S2_IsEmpty passed without an "
                                       "assertion"));
}

TEST_F(CoverageTest, AFailedTestDoesNotCount) {
  EXPECT_THAT(Problems(3), ElementsAre("S-3 Title: sample: SampleTest.S3_Fails failed"));
  EXPECT_THAT(Problems(5), ElementsAre(HasSubstr("SampleTest.S5_FailsWithoutACondition failed")));
}

TEST_F(CoverageTest, ASkippedTestDoesNotCount) {
  EXPECT_THAT(Problems(4), ElementsAre("S-4 Title: sample: SampleTest.S4_IsSkipped skipped"));
}

TEST_F(CoverageTest, EachParameterHasToAssert) {
  EXPECT_THAT(Problems(6),
              ElementsAre(HasSubstr("Both/SampleParameterTest.S6_OneParameterIsWithoutAssertion/1 "
                                    "passed without an assertion")));
}

TEST_F(CoverageTest, ARequirementWithoutATestIsReported) {
  EXPECT_THAT(Problems(7), ElementsAre("S-7 Title: no test"));
}

TEST_F(CoverageTest, ATestThatDidNotRunDoesNotCount) {
  tests_.programs["SampleTest.S8_New"].insert("sample");
  tests_.by_requirement[8].insert("SampleTest.S8_New");
  EXPECT_THAT(Problems(8), ElementsAre("S-8 Title: sample: SampleTest.S8_New did not run"));
}

TEST_F(CoverageTest, ProgramsWithoutResultsAreNotJudged) {
  EXPECT_THAT(Problems(2, {"sample"}), IsEmpty());
}

TEST_F(CoverageTest, NamesInTheTableHaveToExist) {
  const Section section{.title = "Section", .requirements = {{.number = 9, .title = "Title"}}};
  EXPECT_THAT(
      Uncovered({section}, TestsOf(tests_, {{9, "SampleTest.Renamed"}}), tests_, results_, {}),
      ElementsAre("S-9 Title: there is no test SampleTest.Renamed"));
}

TEST_F(CoverageTest, NotTestedIsNotAnExcuseForARequirementWithTests) {
  const Section section{.title = "Section",
                        .requirements = {{.number = 1, .title = "Title", .not_tested = true},
                                         {.number = 7, .title = "Other", .not_tested = true}}};
  EXPECT_THAT(Uncovered({section}, TestsOf(tests_, {}), tests_, results_, {}),
              ElementsAre(HasSubstr("\"Not tested\", but there is SampleTest.S1_Asserts")));
}

TEST_F(CoverageTest, EveryKindOfAssertionIsCounted) {
  for (const std::string_view kind : {"Boolean", "Comparison", "Number", "String", "Matcher",
                                      "Predicate", "Exception", "Failures", "Death", "Threads"}) {
    EXPECT_THAT(lines_,
                HasSubstr(absl::StrCat("passed 3 SampleMacroTest.", std::string(kind), "\n")));
  }
}

TEST(ResultsTest, MalformedLinesAreErrors) {
  for (const std::string line : {"passed", "passed x A.B", "passed 1", "passed 1 NoDot"}) {
    EXPECT_FALSE(Results().Add("a_test", line).ok()) << line;
  }
}

TEST(ResultsTest, ResultsOlderThanTheProgramOrWithoutProgramAreMissing) {
  auto folder = testing::TemporaryFolder::Make();
  ASSERT_OK(folder);
  const auto result = [&](const std::string& entry) {
    return folder->path() + "/test-results/" + entry;
  };
  const auto write = [&](const std::string& path, const std::string& time) {
    std::ofstream(path) << "passed 1 ATest.S1\n";
    ASSERT_OK(testing::RunOk({.argv = {"touch", "-d", time, path}}));
  };
  for (const char* child : {"/tests", "/test-results"}) {
    std::filesystem::create_directory(folder->path() + child);
  }
  for (const std::string program : {"old", "new", "none"}) {
    write(ProgramPathOf(result(program)), "2026-01-02 00:00");
  }
  write(result("old.1"), "2026-01-01 00:00");
  write(result("new.1"), "2026-01-03 00:00");
  write(result("unbuilt"), "2026-01-03 00:00");
  ResultFiles found;
  ASSERT_OK(
      ReadResults({result("new.1"), result("none.1"), result("old.1"), result("unbuilt")}, found));
  EXPECT_THAT(found.missing, ElementsAre(result("none.1"), result("old.1"), result("unbuilt")));
  EXPECT_THAT(found.results.WhyNotCounted("new", "ATest.S1"), IsEmpty());
  EXPECT_THAT(found.results.WhyNotCounted("old", "ATest.S1"), Not(IsEmpty()));
}

}  // namespace
}  // namespace svcmap::conformance
