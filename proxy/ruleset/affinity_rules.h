// Chains and rules for session affinity (S-122 to S-128, docs/decisions/0002). For each client, a
// record stores the endpoint number that Choice() returns. The endpoint number contains the number
// of the Service port and the number of the endpoint within this Service port. It is valid only
// while the applicable endpoint set maps the endpoint number to an address. A record with an
// invalid endpoint number is stale.
//
// Chain stick-N calls choose and recall-N. If the record is stale, stick-N then calls restore,
// choose and recall-N, at most twice. A packet that is still not translated is dropped.
//
// Chain stick uses the first timeout of the table for descriptors with an unknown timeout.
//
// Chain choose writes the endpoint number from a random slot of the group to the destination
// address.
//
// Chain recall-N creates the client's record if the client has none, and translates the destination
// to the recorded endpoint. If the record is stale, recall-N deletes the record.
//
// Chain restore writes the descriptor to the destination address again. If a commit has disabled
// session affinity for the Service port since the lookup, chain restored picks an endpoint without
// affinity.
//
// Port ranges use the same chains. Their endpoints are in other maps, which have no port. Chain
// range-restored picks an endpoint of a range without affinity.
//
// N is the timeout in seconds. Chains with -local- in their name use the local endpoint set.
#pragma once

#include <cstdint>
#include <span>

#include "proxy/ruleset/service_rule.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy {

void AddAffinityRules(Family family, std::span<const uint32_t> timers,
                      const RulesetOptions& options, RuleList& rules);

}  // namespace svcmap::proxy
