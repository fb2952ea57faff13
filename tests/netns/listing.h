// Comparable listings of a namespace by the installed nft(8).
#ifndef SVCMAP_TESTS_NETNS_LISTING_H_
#define SVCMAP_TESTS_NETNS_LISTING_H_

#include <string>

#include "absl/status/statusor.h"
#include "tests/support/agent.h"
#include "tests/support/kernel_check.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

// Returns `nft list ruleset` with sorted elements, one per line. The kernel lists elements in hash
// order, which differs between namespaces.
absl::StatusOr<std::string> SortedRuleset(const NetNs& netns);

// Returns SortedRuleset after loading `script` into an empty namespace.
absl::StatusOr<std::string> SortedRulesetOf(const std::string& script);

// Fails unless the kernel's sets and maps, except for the marker, equal the agent's dump of the
// applied state.
void ExpectAppliedIsInTheKernel(Agent& agent, const NetNs& netns);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_NETNS_LISTING_H_
