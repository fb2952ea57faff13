#include "tests/netns/listing.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace svcmap::testing {
namespace {

// The elements in "a, b comment \"x, y\", c": commas inside quotes do not separate.
std::vector<std::string> Elements(const std::string& text) {
  std::vector<std::string> elements(1);
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) {
      elements.emplace_back();
    } else if (quoted || (c != '\n' && c != '\t')) {
      if (c != ' ' || !elements.back().empty()) elements.back() += c;
    }
  }
  std::sort(elements.begin(), elements.end());
  return elements;
}

std::string Sorted(const std::string& listing) {
  const std::string start = "elements = {";
  std::string sorted;
  size_t at = 0;
  for (;;) {
    const size_t from = listing.find(start, at);
    if (from == std::string::npos) return sorted + listing.substr(at);
    const size_t first = from + start.size();
    size_t end = first;
    for (bool quoted = false; listing[end] != '}' || quoted; ++end) {
      if (listing[end] == '"') quoted = !quoted;
    }
    sorted += listing.substr(at, first - at) + "\n" +
              absl::StrJoin(Elements(listing.substr(first, end - first)), ",\n");
    at = end;
  }
}

// What packets write, and what differs with every commit.
std::string WithoutState(std::string listing) {
  for (const std::string map : {"map marker {", "map affinity {"}) {
    size_t at = 0;
    while ((at = listing.find(map, at)) != std::string::npos) {
      listing.erase(at, listing.find("\n\t}", at) - at);
    }
  }
  return listing;
}

}  // namespace

absl::StatusOr<std::string> Nft(const NetNs& netns, const std::string& arguments) {
  std::vector<std::string> argv = {"nft"};
  for (const auto& argument : absl::StrSplit(arguments, ' ')) argv.emplace_back(argument);
  return RunOk({.argv = argv, .netns = &netns});
}

absl::StatusOr<std::string> SortedRuleset(const NetNs& netns) {
  absl::StatusOr<std::string> listing = Nft(netns, "-s list ruleset");
  return listing.ok() ? Sorted(*listing) : listing;
}

absl::StatusOr<std::string> SortedRulesetOf(const std::string& script) {
  const absl::StatusOr<NetNs> netns = NetNs::Create();
  if (!netns.ok()) return netns.status();
  if (absl::Status status = RunNft(*netns, script); !status.ok()) return status;
  return SortedRuleset(*netns);
}

void ExpectAppliedIsInTheKernel(Agent& agent, const NetNs& netns) {
  const absl::StatusOr<std::string> skeleton = Nft(netns, "-s -t list ruleset");
  ASSERT_OK(skeleton);
  const absl::StatusOr<std::string> dump = agent.Dump(v1::DumpRequest::APPLIED);
  ASSERT_OK(dump);
  const absl::StatusOr<std::string> dumped = SortedRulesetOf(*skeleton + *dump);
  ASSERT_OK(dumped);
  const absl::StatusOr<std::string> kernel = SortedRuleset(netns);
  ASSERT_OK(kernel);
  EXPECT_TRUE(WithoutState(*dumped) == WithoutState(*kernel)) << "dump:\n"
                                                              << *dumped << "\nkernel:\n"
                                                              << *kernel;
}

}  // namespace svcmap::testing
