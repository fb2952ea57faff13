#include "tests/netns/listing.h"

#include "absl/strings/str_join.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

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
  absl::StatusOr<std::string> dumped;
  absl::StatusOr<std::string> kernel;
  // Between the two reads, the agent may commit changes and delete leftovers.
  const bool equal = WaitUntil([&] {
    const absl::StatusOr<std::string> skeleton = Nft(netns, "-s -t list ruleset");
    dumped = agent.Dump(v1::DumpRequest::APPLIED);
    if (skeleton.ok() && dumped.ok()) dumped = SortedRulesetOf(*skeleton + *dumped);
    kernel = SortedRuleset(netns);
    return skeleton.ok() && dumped.ok() && kernel.ok() &&
           WithoutState(*dumped) == WithoutState(*kernel);
  });
  ASSERT_OK(dumped);
  ASSERT_OK(kernel);
  EXPECT_TRUE(equal) << "dump:\n" << *dumped << "\nkernel:\n" << *kernel;
}

}  // namespace svcmap::testing
