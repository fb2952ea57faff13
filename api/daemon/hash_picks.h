// Checks the kernel's support for picks by hash (ServiceSpec.endpoint_pick).
#pragma once

#include "proxy/ruleset/table.h"

namespace svcmap::api {

// Removes the rules for picks by hash from `ruleset`, with a warning, if the kernel does not
// support hashes. Missing support does not prevent svcmapd from starting: the Services pick
// endpoints at random.
void DropHashPicksIfUnsupported(proxy::RulesetOptions& ruleset);

}  // namespace svcmap::api
