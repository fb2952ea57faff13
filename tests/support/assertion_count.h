// Counts the assertions that tests make, including successful assertions. The compiler includes
// this file before the first line of every source of a test program.
//
// GoogleTest reports only failed assertions. Each assertion macro (EXPECT_*, ASSERT_*, and macros
// built on these) expands GTEST_AMBIGUOUS_ELSE_BLOCKER_ once, so the replacement below is evaluated
// once for each assertion.
// Mock expectations (EXPECT_CALL) and FAIL() do not expand the macro.
#pragma once

// Include gmock before the macro changes, so that gmock's internal checks are not counted.
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
