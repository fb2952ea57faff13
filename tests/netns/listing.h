// What stock nft(8) says about a namespace, in a form that can be compared.
#ifndef SVCMAP_TESTS_NETNS_LISTING_H_
#define SVCMAP_TESTS_NETNS_LISTING_H_

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/agent.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

// `nft ARGUMENTS`, for example "-t list ruleset".
absl::StatusOr<std::string> Nft(const NetNs& netns, const std::string& arguments);

// `nft list ruleset` with the elements of each set in order, one in each line: the kernel gives
// them in the order of their hashes, which differs from namespace to namespace.
absl::StatusOr<std::string> SortedRuleset(const NetNs& netns);

// As SortedRuleset, of what loading `script` into an empty namespace makes of it.
absl::StatusOr<std::string> SortedRulesetOf(const std::string& script);

// Fails unless the kernel's sets and maps, but for the marker, hold exactly what the agent's dump
// of the applied state says.
void ExpectAppliedIsInTheKernel(Agent& agent, const NetNs& netns);

// Elements as nft writes them, by set: "ip svcmap service-ips". Sets without any are left out.
using ElementLists = std::map<std::string, std::set<std::string>>;

// One listing, taken apart. All tables, also those of others.
struct Listing {
  std::string rules;  // Tables, sets and chains without elements and without the sizes of sets.
  ElementLists elements;
};
absl::StatusOr<Listing> ReadListing(const NetNs& netns);

// What a dump of the agent says of elements.
absl::StatusOr<ElementLists> ReadDump(Agent& agent, v1::DumpRequest::What what);

// How they differ, some lines for people; empty if they do not. The marker and what packets write
// are not compared.
std::string Difference(const ElementLists& wanted, const ElementLists& found);

// OK if the kernel has the elements that the agent wants, and these rules (Listing::rules).
absl::Status CheckKernel(Agent& agent, const NetNs& netns, const std::string& rules);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_NETNS_LISTING_H_
