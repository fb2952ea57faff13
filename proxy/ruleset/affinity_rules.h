// Session affinity (S-122..S-128, docs/decisions/0002): the endpoint chosen for a client is
// remembered as a choice, Service port and endpoint, and a choice only counts while the set that
// the packet may use still maps it to an address.
//
//   stick-N    choose, recall; where the record is stale: restore, choose, recall; drop
//   choose     a random slot of the group -> @affinity-slots: a choice stands in the destination
//   recall-N   remember it unless there is a record, take the record, dnat by it; forget it
//   restore    the descriptor again
//
// N is the timeout in seconds; -local- chains do the same for the local set.
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
