// Marks a test as not applicable to the running kernel:
//
//   if (KernelAccepts(row)) GTEST_SKIP() << NotApplicable("the kernel accepts such rows");
//
// `make test` counts a skipped test as failed, so a test can be not applicable only to the kernels
// of `make test-kernels`, which shows the reasons (tests/kernels).
#pragma once

#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"

namespace svcmap::testing {

// Prints a line for tests/kernels/run.py, and returns the text for GTEST_SKIP().
inline std::string NotApplicable(const std::string& reason) {
  const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
  std::cout << absl::StrCat("note: not applicable: ", test.test_suite_name(), ".", test.name(),
                            ": ", reason)
            << std::endl;
  return absl::StrCat("not applicable: ", reason);
}

}  // namespace svcmap::testing
