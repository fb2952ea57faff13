#include "tests/bench/record/statistics.h"

#include <gtest/gtest.h>

namespace svcmap::bench {
namespace {

TEST(StatisticsTest, PercentilesLieBetweenFigures) {
  const std::vector<double> values = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(Percentile(values, 0), 1);
  EXPECT_DOUBLE_EQ(Percentile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(Percentile(values, 0.9), 3.7);
  EXPECT_DOUBLE_EQ(Percentile(values, 1), 4);
  EXPECT_DOUBLE_EQ(Percentile({7}, 0.99), 7);
  EXPECT_DOUBLE_EQ(Percentile({}, 0.5), 0);
}

TEST(StatisticsTest, AnOutlierMovesNeitherMedianNorDeviation) {
  EXPECT_DOUBLE_EQ(Median({10, 11, 12, 13, 1000}), 12);
  EXPECT_DOUBLE_EQ(MedianDeviation({10, 11, 12, 13, 1000}), 1);
  EXPECT_DOUBLE_EQ(MedianDeviation({5}), 0);
}

TEST(StatisticsTest, RatiosAreTakenWithinARound) {
  // In the second round, the machine was ten times slower. Only `slow` has a third round.
  const Rounds slow = {{1, {20}}, {2, {200}}, {3, {1}}};
  const Rounds fast = {{1, {10}}, {2, {100}}};
  EXPECT_DOUBLE_EQ(Ratio(slow, fast), 2);
  EXPECT_DOUBLE_EQ(Ratio(slow, {}), 0);
  EXPECT_DOUBLE_EQ(Ratio(slow, {{1, {0}}}), 0);
}

}  // namespace
}  // namespace svcmap::bench
