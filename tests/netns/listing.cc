#include "tests/netns/listing.h"

#include "absl/strings/str_join.h"
#include "tests/support/status_matchers.h"

namespace svcmap::testing {
namespace {

std::string Sorted(const std::string& listing) {
  std::string sorted;
  size_t at = 0;
  for (const ElementsAt& list : FindElements(listing)) {
    sorted += listing.substr(at, list.begin - at) + "\n" + absl::StrJoin(list.elements, ",\n");
    at = list.end;
  }
  return sorted + listing.substr(at);
}

// Removes sets that packets update, and values that change with every commit.
std::string WithoutState(std::string listing) {
  for (const std::string map :
       {"map marker {", "map affinity {", "set service-connections {", "set range-connections {"}) {
    size_t at = 0;
    while ((at = listing.find(map, at)) != std::string::npos) {
      listing.erase(at, listing.find("\n\t}", at) - at);
    }
  }
  return listing;
}

}  // namespace

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
