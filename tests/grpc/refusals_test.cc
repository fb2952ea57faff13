#include "api/grpc/refusals.h"

#include <gtest/gtest.h>

namespace svcmap::api {
namespace {

using std::chrono::milliseconds;

TEST(RefusalsTest, AllAreCountedAndOneOfAClientAndSecondIsLogged) {
  Refusals refusals;
  const Refusals::Clock::time_point start;
  EXPECT_TRUE(refusals.Add("a", "", start));
  EXPECT_FALSE(refusals.Add("a", "", start + milliseconds(999)));
  EXPECT_TRUE(refusals.Add("b", "", start + milliseconds(999)));
  EXPECT_TRUE(refusals.Add("a", "", start + milliseconds(1000)));
  EXPECT_EQ(refusals.count(), 4u);
}

TEST(RefusalsTest, ManyClientsAtOnceAreNotRemembered) {
  Refusals refusals;
  const Refusals::Clock::time_point start;
  int logged = 0;
  for (int i = 0; i < 1000; ++i) logged += refusals.Add(std::to_string(i), "", start) ? 1 : 0;
  EXPECT_EQ(logged, 64);
  EXPECT_EQ(refusals.count(), 1000u);
  EXPECT_TRUE(refusals.Add("a", "", start + milliseconds(1000)));
}

}  // namespace
}  // namespace svcmap::api
