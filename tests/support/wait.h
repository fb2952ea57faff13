// Waits for conditions. Tests do not wait for a fixed time in place of a condition.
//
//   EXPECT_TRUE(WaitUntil([&] { return server.connections() == 1; }));
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/support/environment.h"

namespace svcmap::testing {

// Time limit for conditions that a correct program fulfils. The limit only ends tests that hang, so
// it is much longer than the slowest wait on a busy machine.
inline constexpr std::chrono::seconds kHangLimit{60};

// Calls `condition` until it returns true. Returns false after the time limit.
template <typename Condition>
bool WaitUntil(const Condition& condition, std::chrono::milliseconds limit = kHangLimit) {
  const auto end = std::chrono::steady_clock::now() + OnThisMachine(limit);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// As WaitUntil, for functions that return a status. The error contains `what`.
template <typename Condition>
absl::Status Eventually(const std::string& what, const Condition& condition,
                        std::chrono::milliseconds limit = kHangLimit) {
  if (WaitUntil(condition, limit)) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("in vain waited for: ", what));
}

}  // namespace svcmap::testing
