// Tests that the number of instructions per change is the same with 1,000 and with 100,000
// Services, and does not exceed a stored bound. The test measures the code between the controller's
// socket and the kernel's socket. valgrind counts the instructions, because this count does not
// depend on the load of the machine.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/instructions/changes.h"
#include "tests/instructions/profile.h"

namespace svcmap::instructions {
namespace {

constexpr double kMostGrowth = 0.10;

// Maximum number of instructions per change: three times the number on 28 November 2026. A change
// that makes the code simpler and slower stays within the maximum, and a scan of all Services does
// not. docs/decisions/0008-where-the-time-of-a-sync-goes.md contains the measured numbers.
const std::map<std::string, uint64_t> kMost = {
    {"endpoint replaced", 330'000}, {"the same by delta", 410'000}, {"endpoint added", 310'000},
    {"endpoint removed", 300'000},  {"Service added", 390'000},     {"Service removed", 310'000},
    {"Service changed", 280'000}};

// Returns the number of instructions per change, by kind of change.
absl::StatusOr<std::map<std::string, uint64_t>> CountAt(const std::string& shape) {
  auto counts = CountInstructions({SVCMAP_BIN_DIR "/svcmap-change-instructions", shape});
  if (!counts.ok()) return counts;
  for (auto& [kind, count] : *counts) count /= kCounted;
  return counts;
}

TEST(ChangeInstructionsTest, OneChangeCostsTheSameAtAHundredThousandServicesAsAtAThousand) {
  const auto small = CountAt("1000x10");
  ASSERT_TRUE(small.ok()) << small.status();
  const auto large = CountAt("100000x10");
  ASSERT_TRUE(large.ok()) << large.status();
  ASSERT_EQ(small->size(), size_t{kKinds});
  ASSERT_EQ(large->size(), size_t{kKinds});
  for (const auto& [kind, few] : *small) {
    const uint64_t many = large->at(kind);
    const double growth = static_cast<double>(many) / static_cast<double>(few) - 1;
    const std::string line =
        absl::StrCat(kind, ": ", few, " instructions at 1,000 Services, ", many, " at 100,000");
    EXPECT_LT(std::abs(growth), kMostGrowth) << line;
    EXPECT_LE(few, kMost.at(kind)) << line;
    RecordProperty(kind, line);
    std::printf("%s (%+.1f %%)\n", line.c_str(), growth * 100);
  }
}

}  // namespace
}  // namespace svcmap::instructions
