#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/support/nft.h"
#include "tests/support/process.h"

namespace svcmap::testing {
namespace {

// The kernel needs 17 s to list a million elements.
constexpr std::chrono::minutes kNftListTimeout{3};

}  // namespace

absl::Status RunNftProgram(const std::string& nft, const NetNs& netns, const std::string& script) {
  return RunOk({.argv = {nft, "-f", "-"}, .netns = &netns, .stdin_text = script}).status();
}

absl::StatusOr<std::string> ListNftProgram(const std::string& nft, const NetNs& netns,
                                           const std::string& arguments) {
  std::vector<std::string> argv = {nft};
  for (const auto& argument : absl::StrSplit(arguments, ' ')) argv.emplace_back(argument);
  return RunOk({.argv = std::move(argv), .netns = &netns}, kNftListTimeout);
}

}  // namespace svcmap::testing
