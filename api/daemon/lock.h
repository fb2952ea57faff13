// One svcmapd per network namespace: two would write over each other's tables without end.
#pragma once

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

// Held for as long as the descriptor lives, also when the process is killed. ALREADY_EXISTS if
// another one holds it.
absl::StatusOr<UniqueFd> LockNetworkNamespace();

}  // namespace svcmap::api
