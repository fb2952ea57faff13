// Counts the assertions that tests make, including those that succeed. Included before the first
// line of every source of a test program.
//
// GoogleTest reports failed assertions only. Each assertion macro (EXPECT_*, ASSERT_*, and macros
// built on these) expands GTEST_AMBIGUOUS_ELSE_BLOCKER_ once, so the replacement below is evaluated
// once for each assertion. tests/conformance/sample_tests.cc shows that for each kind of macro.
// Expectations of mocks (EXPECT_CALL) and FAIL() do not expand it.
#pragma once

// Before the macro changes, so that checks inside of gmock are not counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace svcmap::testing {

// Counts one assertion. Returns 0. Thread-safe.
int CountAssertion();

}  // namespace svcmap::testing

#undef GTEST_AMBIGUOUS_ELSE_BLOCKER_
#define GTEST_AMBIGUOUS_ELSE_BLOCKER_          \
  switch (::svcmap::testing::CountAssertion()) \
  case 0:                                      \
  default:  // NOLINT
