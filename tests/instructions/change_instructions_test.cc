// The number of instructions per change is independent of the size of the cluster: equal for
// 100,000 and 1,000 Services, between the sockets of controller and kernel. valgrind counts the
// instructions, because its count does not depend on the load of the machine.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/instructions/changes.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::instructions {
namespace {

constexpr double kMostGrowth = 0.10;
constexpr std::chrono::minutes kPatience{10};

// Instructions per change, by kind of change.
using Counts = std::map<std::string, uint64_t>;

// A line in the profile's header contains the kind, and the last line contains the sum.
void AddProfile(const std::filesystem::path& profile, Counts& counts) {
  std::ifstream lines(profile);
  std::string kind;
  for (std::string line; std::getline(lines, line);) {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, "desc: Trigger: Client Request: ")) kind = std::string(rest);
    if (kind.empty() || !absl::ConsumePrefix(&rest, "totals: ")) continue;
    counts[kind] = std::stoull(std::string(rest)) / kCounted;
  }
}

absl::StatusOr<Counts> CountAt(const std::string& shape) {
  auto folder = svcmap::testing::TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  const auto ran = svcmap::testing::RunOk({{"valgrind", "--tool=callgrind", "--instr-atstart=no",
                                            "--callgrind-out-file=" + folder->path() + "/profile",
                                            SVCMAP_BIN_DIR "/svcmap-change-instructions", shape}},
                                          kPatience);
  if (!ran.ok()) return ran.status();
  Counts counts;
  for (const auto& entry : std::filesystem::directory_iterator(folder->path())) {
    AddProfile(entry.path(), counts);
  }
  return counts;
}

TEST(ChangeInstructionsTest, OneChangeCostsTheSameAtAHundredThousandServicesAsAtAThousand) {
  const absl::StatusOr<Counts> small = CountAt("1000x10");
  ASSERT_TRUE(small.ok()) << small.status();
  const absl::StatusOr<Counts> large = CountAt("100000x10");
  ASSERT_TRUE(large.ok()) << large.status();
  ASSERT_EQ(small->size(), size_t{kKinds});
  ASSERT_EQ(large->size(), size_t{kKinds});
  for (const auto& [kind, few] : *small) {
    const uint64_t many = large->at(kind);
    const double growth = static_cast<double>(many) / static_cast<double>(few) - 1;
    const std::string line =
        absl::StrCat(kind, ": ", few, " instructions at 1,000 Services, ", many, " at 100,000");
    EXPECT_LT(std::abs(growth), kMostGrowth) << line;
    RecordProperty(kind, line);
    std::printf("%s (%+.1f %%)\n", line.c_str(), growth * 100);
  }
}

}  // namespace
}  // namespace svcmap::instructions
