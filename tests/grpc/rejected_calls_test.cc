#include "api/screen/rejected_calls.h"

#include <gtest/gtest.h>

namespace svcmap::api {
namespace {

using std::chrono::milliseconds;

TEST(RejectedCallsTest, AllAreCountedAndOneOfAClientAndSecondIsLogged) {
  RejectedCalls rejected_calls;
  const RejectedCalls::Clock::time_point start;
  EXPECT_TRUE(rejected_calls.Add("a", "", start));
  EXPECT_FALSE(rejected_calls.Add("a", "", start + milliseconds(999)));
  EXPECT_TRUE(rejected_calls.Add("b", "", start + milliseconds(999)));
  EXPECT_TRUE(rejected_calls.Add("a", "", start + milliseconds(1000)));
  EXPECT_EQ(rejected_calls.count(), 4u);
}

TEST(RejectedCallsTest, ManyClientsAtOnceAreNotRemembered) {
  RejectedCalls rejected_calls;
  const RejectedCalls::Clock::time_point start;
  int logged = 0;
  for (int i = 0; i < 1000; ++i) logged += rejected_calls.Add(std::to_string(i), "", start) ? 1 : 0;
  EXPECT_EQ(logged, 64);
  EXPECT_EQ(rejected_calls.count(), 1000u);
  EXPECT_TRUE(rejected_calls.Add("a", "", start + milliseconds(1000)));
}

}  // namespace
}  // namespace svcmap::api
