// The preflight for `svcmapd --preflight`.
#pragma once

#include "api/migration/node_report.h"
#include "nft/model/table.h"

namespace svcmap::api {

// As Preflight, but what is fatal does not keep the rest from being looked at.
NodeReport ReportNode(const nft::TableSpecs& tables);

}  // namespace svcmap::api
