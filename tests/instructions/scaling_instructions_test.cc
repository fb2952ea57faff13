// Tests that the work for one operation grows at most with n log n. n is the number of ports,
// slices, endpoints, source ranges, addresses of a Service, node addresses, or claims on one
// address.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "tests/instructions/profile.h"

namespace svcmap::instructions {
namespace {

constexpr int kFactor = 4;
// Permitted growth beyond n log n, which rehashing and tree nodes may cause.
constexpr double kTolerance = 1.25;
// Smaller instruction counts consist mostly of work that other threads finish after the previous
// operation.
constexpr uint64_t kFewest = 1'000'000;
constexpr int kRecounts = 5;

double Growth(uint64_t few, uint64_t many) {
  return static_cast<double>(many) / static_cast<double>(few);
}

struct Dimension {
  const char* name;
  int size;  // The smaller of two measured sizes. The larger size is kFactor times this size.
};

class ScalingInstructionsTest : public ::testing::TestWithParam<Dimension> {};

TEST_P(ScalingInstructionsTest, AnOperationCostsAtMostNLogN) {
  const auto [name, size] = GetParam();
  const auto count = [name = name](int n) {
    return CountInstructions(
        {SVCMAP_BIN_DIR "/svcmap-scaling-instructions", name, absl::StrCat(n)});
  };
  const auto small = count(size);
  ASSERT_TRUE(small.ok()) << small.status();
  const auto large = count(kFactor * size);
  ASSERT_TRUE(large.ok()) << large.status();
  ASSERT_EQ(small->size(), 3u) << "add, change, remove";
  const double bound = kFactor * std::log(kFactor * size) / std::log(size) * kTolerance;
  for (const auto& [operation, few] : *small) {
    uint64_t many = large->at(operation);
    // The threads of the loop make the count vary by some percent. The smallest count is the cost.
    for (int i = 0; i < kRecounts && Growth(few, many) >= bound; ++i) {
      const auto again = count(kFactor * size);
      ASSERT_TRUE(again.ok()) << again.status();
      many = std::min(many, again->at(operation));
    }
    std::printf("%s of %d and %d %s: %.1f M and %.1f M instructions, factor %.2f\n",
                operation.c_str(), size, kFactor * size, name, static_cast<double>(few) / 1e6,
                static_cast<double>(many) / 1e6, Growth(few, many));
    if (few >= kFewest) {
      EXPECT_LT(Growth(few, many), bound) << operation;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dimensions, ScalingInstructionsTest,
                         ::testing::Values(Dimension{"ports", 1000}, Dimension{"slices", 500},
                                           Dimension{"endpoints", 4000},
                                           Dimension{"source-ranges", 512},
                                           Dimension{"addresses", 250},
                                           Dimension{"node-addresses", 500},
                                           Dimension{"claims", 500}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace svcmap::instructions
