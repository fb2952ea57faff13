#include "tests/instructions/profile.h"

#include <chrono>
#include <filesystem>
#include <fstream>

#include "absl/strings/strip.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::instructions {
namespace {

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

}  // namespace

absl::StatusOr<std::map<std::string, uint64_t>> CountInstructions(
    const std::vector<std::string>& command) {
  auto folder = svcmap::testing::TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  std::vector<std::string> arguments = {"valgrind", "--tool=callgrind", "--instr-atstart=no",
                                        "--callgrind-out-file=" + folder->path() + "/profile"};
  arguments.insert(arguments.end(), command.begin(), command.end());
  const auto ran = svcmap::testing::RunOk({arguments}, kPatience);
  if (!ran.ok()) return ran.status();
  std::map<std::string, uint64_t> counts;
  for (const auto& entry : std::filesystem::directory_iterator(folder->path())) {
    AddProfile(entry.path(), counts);
  }
  return counts;
}

}  // namespace svcmap::instructions
