#include "tests/bench/packets/latencies.h"

#include <gtest/gtest.h>

#include "tests/bench/record/statistics.h"

namespace svcmap::bench {
namespace {

TEST(LatenciesTest, WhatFailedTookAllThePatience) {
  const Latencies latencies{.microseconds = {10, 20, 30, 40}, .failed = 6};
  EXPECT_EQ(latencies.count(), 10);
  EXPECT_EQ(latencies.WithFailures().size(), 10u);
  EXPECT_EQ(Percentile(latencies.WithFailures(), 0), 10);
  EXPECT_EQ(Percentile(latencies.WithFailures(), 0.5), 2'000'000);
  EXPECT_EQ(Percentile(Latencies{.microseconds = {10, 20}}.WithFailures(), 1), 20);
}

}  // namespace
}  // namespace svcmap::bench
