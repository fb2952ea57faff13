// Lists the ruleset of a namespace with the installed nft(8), in a form that tests can compare.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tests/support/agent.h"
#include "tests/support/kernel_check.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

// Returns `nft list ruleset` with sorted elements, one per line. The kernel lists elements in hash
// order, which differs between namespaces.
absl::StatusOr<std::string> SortedRuleset(const NetNs& netns);

// Loads `script` into an empty namespace and returns its SortedRuleset.
absl::StatusOr<std::string> SortedRulesetOf(const std::string& script);

// Waits until the kernel's sets and maps, except for the marker, equal the applied state in the
// agent's dump.
void ExpectAppliedIsInTheKernel(Agent& agent, const NetNs& netns);

}  // namespace svcmap::testing
