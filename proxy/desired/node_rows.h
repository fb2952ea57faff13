// The rows that do not come from Services: where Services have their addresses, and who is a pod.
// Pure.
#pragma once

#include <vector>

#include "proxy/desired/rows.h"
#include "proxy/ruleset/table.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

// `node` is this node, or null while it is unknown.
std::vector<Row> NodeRows(const RulesetOptions& options, const Node* node, const Store& store);

}  // namespace svcmap::proxy
