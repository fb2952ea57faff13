// Rows that do not belong to a Service: the ranges of Service addresses and of pod addresses, and
// the node addresses that answer echo requests. Pure functions.
#pragma once

#include <optional>
#include <vector>

#include "proxy/desired/rows.h"
#include "proxy/desired/service.h"
#include "proxy/ruleset/table.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

// Returns the pod CIDR of one family, or nullopt if pods are not identified by address (S-68).
// `node` is null if this node is unknown. NodeRows also accepts a null `node`.
std::optional<IpPrefix> PodBlock(const RulesetOptions& options, const Node* node, Family family);

std::vector<Row> NodeRows(const RulesetOptions& options, const Node* node, const NodeFacts& facts,
                          const Store& store);

}  // namespace svcmap::proxy
