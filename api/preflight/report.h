// Creates the report of `svcmapd --preflight`.
#pragma once

#include "api/migration/node_report.h"
#include "nft/model/table.h"

namespace svcmap::api {

// Runs the same checks as Preflight. Continues with the remaining checks after a fatal error.
NodeReport ReportNode(const nft::TableSpecs& tables);

}  // namespace svcmap::api
