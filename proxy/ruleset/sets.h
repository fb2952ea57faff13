// Declares the sets of the constant ruleset.
#pragma once

#include <string_view>
#include <vector>

#include "nft/expr/rule_builder.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy {

std::vector<nft::SetSpec> MakeSets(Family family,
                                   const RulesetOptions& options);  // Indexed by SetIndex.

// Returns a reference to a set for use in rules.
nft::NamedSet Named(SetIndex set);

}  // namespace svcmap::proxy
