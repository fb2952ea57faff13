// Tests with known outcomes and numbers of assertions, which the tests of the conformance check
// use. The sample program is not part of the test suites.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace svcmap::conformance {
namespace {

using ::testing::Eq;

TEST(SampleTest, S1_Asserts) { EXPECT_TRUE(true); }
TEST(SampleTest, S2_IsEmpty) {}
TEST(SampleTest, S3_Fails) { EXPECT_TRUE(false); }
TEST(SampleTest, S4_IsSkipped) {
  EXPECT_TRUE(true);
  GTEST_SKIP();
}
TEST(SampleTest, S5_FailsWithoutACondition) { ADD_FAILURE(); }

class SampleParameterTest : public ::testing::TestWithParam<int> {};
TEST_P(SampleParameterTest, S6_OneParameterIsWithoutAssertion) {
  if (GetParam() == 0) {
    EXPECT_EQ(GetParam(), 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Both, SampleParameterTest, ::testing::Values(0, 1));

// Each test in this file makes three assertions.
TEST(SampleMacroTest, Boolean) {
  EXPECT_TRUE(true);
  EXPECT_FALSE(false);
  ASSERT_TRUE(true);
}
TEST(SampleMacroTest, Comparison) {
  EXPECT_EQ(1, 1);
  EXPECT_LT(1, 2);
  ASSERT_NE(1, 2);
}
TEST(SampleMacroTest, Number) {
  EXPECT_DOUBLE_EQ(1.0, 1.0);
  EXPECT_NEAR(1.0, 1.1, 0.5);
  ASSERT_FLOAT_EQ(1.0F, 1.0F);
}
TEST(SampleMacroTest, String) {
  EXPECT_STREQ("a", "a");
  EXPECT_STRNE("a", "b");
  ASSERT_STRCASEEQ("a", "A");
}
TEST(SampleMacroTest, Matcher) {
  EXPECT_THAT(1, Eq(1));
  EXPECT_THAT("a", Eq("a"));
  ASSERT_THAT(1, Eq(1));
}
TEST(SampleMacroTest, Predicate) {
  const auto is_one = [](int value) { return value == 1; };
  EXPECT_PRED1(is_one, 1);
  EXPECT_PRED2([](int a, int b) { return a < b; }, 1, 2);
  ASSERT_PRED1(is_one, 1);
}
TEST(SampleMacroTest, Exception) {
  EXPECT_THROW(throw std::runtime_error("expected"), std::runtime_error);
  EXPECT_NO_THROW(static_cast<void>(0));
  ASSERT_ANY_THROW(throw 1);
}
TEST(SampleMacroTest, Failures) {
  EXPECT_NO_FATAL_FAILURE(static_cast<void>(0));
  ASSERT_NO_FATAL_FAILURE(EXPECT_TRUE(true));
}
TEST(SampleMacroTest, Death) {
  EXPECT_EXIT(std::exit(1), ::testing::ExitedWithCode(1), "");
  EXPECT_DEATH(std::abort(), "");
  ASSERT_DEATH(std::abort(), "");
}
TEST(SampleMacroTest, Threads) {
  std::thread other([] { EXPECT_TRUE(true); });
  other.join();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(i, i);
}

}  // namespace
}  // namespace svcmap::conformance
