// Chains and rules for session affinity (S-122 to S-128, docs/decisions/0002). "Path of the first
// packet" in proxy/README.md lists the chains. Chains with -local- in their name use the local
// endpoint set. Port ranges use the same chains, but their endpoints are in other maps.
//
// For each client, a record stores the endpoint number that Choice() returns. The number is valid
// only while the applicable endpoint set maps it to an address. The rules delete a record with an
// invalid number and pick another endpoint, at most twice. A packet that is still not translated is
// dropped.
#pragma once

#include <cstdint>
#include <span>

#include "proxy/ruleset/service_rule.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy {

void AddAffinityRules(Family family, std::span<const uint32_t> timers,
                      const RulesetOptions& options, RuleList& rules);

}  // namespace svcmap::proxy
