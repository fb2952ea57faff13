// Chains and rules for session affinity (S-122 to S-128, docs/decisions/0002). For each client, a
// record stores the selected endpoint as a choice: Service port and endpoint number. A choice is
// valid only while the set that the packet may use maps it to an address.
//
//   stick-N    choose, recall; if the record is stale: restore, choose, recall; drop
//   choose     pick a random slot of the group from @affinity-slots: the destination is a choice
//   recall-N   create the record unless it exists, read it, dnat to its endpoint; delete if stale
//   restore    write the descriptor to the destination again
//
// N is the timeout in seconds. Chains with -local- in their name do the same for the local set.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nft/model/table.h"
#include "proxy/ruleset/rule_list.h"

namespace svcmap::proxy {

void AddAffinityChains(std::span<const uint32_t> timers, std::vector<nft::ChainSpec>& chains);
void AddAffinityRules(Family family, std::span<const uint32_t> timers, RuleList& rules);

}  // namespace svcmap::proxy
