// The rows that do not come from Services: where Services have their addresses, and who is a pod.
// Pure.
#pragma once

#include <optional>
#include <vector>

#include "proxy/desired/rows.h"
#include "proxy/ruleset/table.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

// The block of the pods of one family; nothing: pods are not told by their address (S-68). `node`
// is this node, or null while it is unknown, here and below.
std::optional<IpPrefix> PodBlock(const RulesetOptions& options, const Node* node, Family family);

std::vector<Row> NodeRows(const RulesetOptions& options, const Node* node, const Store& store);

}  // namespace svcmap::proxy
