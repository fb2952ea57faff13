// What stock nft(8) says about a namespace, in a form that can be compared.
#ifndef SVCMAP_TESTS_NETNS_LISTING_H_
#define SVCMAP_TESTS_NETNS_LISTING_H_

#include <string>

#include "absl/status/statusor.h"
#include "tests/support/agent.h"
#include "tests/support/kernel_check.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

// `nft list ruleset` with the elements of each set in order, one in each line: the kernel gives
// them in the order of their hashes, which differs from namespace to namespace.
absl::StatusOr<std::string> SortedRuleset(const NetNs& netns);

// As SortedRuleset, of what loading `script` into an empty namespace makes of it.
absl::StatusOr<std::string> SortedRulesetOf(const std::string& script);

// Fails unless the kernel's sets and maps, but for the marker, hold exactly what the agent's dump
// of the applied state says.
void ExpectAppliedIsInTheKernel(Agent& agent, const NetNs& netns);

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_NETNS_LISTING_H_
