// Converts the result of a dry run to an acknowledgement.
#pragma once

#include "nft/model/table.h"
#include "proxy/reconcile/reconciler.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Maximum number of listed elements, which use about 1 MB.
inline constexpr uint64_t kMaxListedElements = 10'000;

v1::Ack ToAck(const nft::TableSpecs& tables, const proxy::DryRun& dry_run);

}  // namespace svcmap::api
