// Tests of the number of instructions between the controller's socket and the kernel's socket.
// valgrind counts the instructions, because this count does not depend on the load of the machine.
//
// ChangeInstructionsTest: the number per change is the same with 1,000 and with 100,000 Services,
// and does not exceed a stored bound. ScalingInstructionsTest: the work for one operation grows at
// most with n log n. n is the number of ports, slices, endpoints, source ranges, addresses of a
// Service, node addresses, or claims on one address.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::instructions {
namespace {

constexpr int kKinds = 7;     // Number of different kinds of changes in main.cc.
constexpr int kCounted = 32;  // Number of counted changes per kind of change, as in main.cc.

constexpr std::chrono::minutes kPatience{10};

// Reads the mark from the head of the profile, and the total instruction count from the last line.
void AddProfile(const std::filesystem::path& profile, std::map<std::string, uint64_t>& counts) {
  std::ifstream lines(profile);
  std::string mark;
  for (std::string line; std::getline(lines, line);) {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, "desc: Trigger: Client Request: ")) mark = std::string(rest);
    if (mark.empty() || !absl::ConsumePrefix(&rest, "totals: ")) continue;
    counts[mark] = std::stoull(std::string(rest));
  }
}

// Runs svcmap-instructions under valgrind and returns the number of instructions for each part that
// the program marked with CALLGRIND_DUMP_STATS_AT. The numbers do not depend on the load of the
// machine.
absl::StatusOr<std::map<std::string, uint64_t>> CountInstructions(
    const std::vector<std::string>& given) {
  auto folder = svcmap::testing::TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  std::vector<std::string> arguments = {"valgrind", "--tool=callgrind", "--instr-atstart=no",
                                        "--callgrind-out-file=" + folder->path() + "/profile",
                                        SVCMAP_BIN_DIR "/svcmap-instructions"};
  arguments.insert(arguments.end(), given.begin(), given.end());
  const auto ran = svcmap::testing::RunOk({arguments}, kPatience);
  if (!ran.ok()) return ran.status();
  std::map<std::string, uint64_t> counts;
  for (const auto& entry : std::filesystem::directory_iterator(folder->path())) {
    AddProfile(entry.path(), counts);
  }
  return counts;
}

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
  auto counts = CountInstructions({shape});
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
  const auto count = [name = name](int n) { return CountInstructions({name, absl::StrCat(n)}); };
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
