#include "tests/support/chance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace svcmap::testing {
namespace {

// Returns the probability of each number of hits in `tries` tries.
std::vector<double> Binomial(int tries, double share) {
  std::vector<double> probability;
  for (int hits = 0; hits <= tries; ++hits) {
    probability.push_back(std::exp(std::lgamma(tries + 1) - std::lgamma(hits + 1) -
                                   std::lgamma(tries - hits + 1) + hits * std::log(share) +
                                   (tries - hits) * std::log1p(-share)));
  }
  return probability;
}

// Returns the probability that `tries` tries miss at least one of `outcomes` outcomes, by the
// number of outcomes that have occurred so far.
double MissingOne(int outcomes, int tries) {
  std::vector<double> reached(static_cast<size_t>(outcomes) + 1);
  reached[0] = 1;
  for (int i = 0; i < tries; ++i) {
    for (int n = outcomes; n > 0; --n) {
      reached[n] = reached[n] * n / outcomes + reached[n - 1] * (outcomes - n + 1) / outcomes;
    }
    reached[0] = 0;
  }
  double missing = 0;
  for (int n = 0; n < outcomes; ++n) missing += reached[n];
  return missing;
}

TEST(ChanceTest, TheTriesReachAllOutcomes) {
  for (const int outcomes : {2, 3, 4, 10, 50}) {
    const int tries = TriesToReachAll(outcomes);
    EXPECT_LE(MissingOne(outcomes, tries), kFalseFailure) << outcomes;
    EXPECT_GT(MissingOne(outcomes, tries - 1), kFalseFailure / 2)
        << "too many tries for " << outcomes;
  }
  EXPECT_EQ(TriesToReachAll(1), 1);
  EXPECT_EQ(TriesToReachAll(2, 0.5, 1e-9), 31);  // 2 * 0.5^31 = 9.3e-10.
  EXPECT_EQ(TriesToReachAll(1, 0.25), 97);       // 0.75^97 = 7.6e-13.
}

TEST(ChanceTest, CountsAreWithinTheirTolerance) {
  for (const int tries : {100, 128, 2000}) {
    for (const double share : {0.5, 0.25, 15.0 / 16, 77.0 / 256}) {
      const int tolerance = ToleranceOfCount(tries, share);
      double outside = 0, outside_of_half = 0;
      const std::vector<double> probability = Binomial(tries, share);
      for (int hits = 0; hits <= tries; ++hits) {
        const double distance = std::abs(hits - tries * share);
        if (distance > tolerance) outside += probability[hits];
        if (distance > tolerance / 2.0) outside_of_half += probability[hits];
      }
      EXPECT_LE(outside, kFalseFailure) << tries << " tries, share " << share;
      EXPECT_GT(outside_of_half, 1e-6) << "tolerance too large: " << tolerance;
    }
  }
}

// The quantiles for 1e-6 are from tables of the chi-square distribution.
TEST(ChanceTest, ChiSquareBoundsExceedTheQuantiles) {
  const std::pair<int, double> quantiles[] = {{1, 23.93}, {2, 27.63}, {9, 44.81}, {99, 180.79}};
  for (const auto& [degrees, quantile] : quantiles) {
    EXPECT_GE(ChiSquareBound(degrees, 1e-6), quantile) << degrees;
    EXPECT_LE(ChiSquareBound(degrees, 1e-6), 1.4 * quantile) << degrees;
    EXPECT_GT(ChiSquareBound(degrees), ChiSquareBound(degrees, 1e-6));
  }
}

}  // namespace
}  // namespace svcmap::testing
