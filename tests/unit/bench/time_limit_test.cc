#include "tests/bench/opponents/time_limit.h"

#include <gtest/gtest.h>

#include <future>

namespace svcmap::bench {
namespace {

using std::chrono::milliseconds;

TEST(TimeLimitTest, WhatTakesTooLongExpires) {
  std::promise<void> expired;
  TimeLimit limit(milliseconds(5), [&] { expired.set_value(); });
  limit.Arm();
  expired.get_future().wait();
  EXPECT_TRUE(limit.expired());
}

TEST(TimeLimitTest, WhatIsDoneInTimeDoesNotExpire) {
  TimeLimit limit(std::chrono::hours(1), [] { ADD_FAILURE(); });
  for (int i = 0; i < 3; ++i) {
    limit.Arm();
    limit.Disarm();
  }
  EXPECT_FALSE(limit.expired());
}

TEST(TimeLimitTest, ItEndsWhileArmed) {
  TimeLimit limit(std::chrono::hours(1), [] { ADD_FAILURE(); });
  limit.Arm();
}

}  // namespace
}  // namespace svcmap::bench
