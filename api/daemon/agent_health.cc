#include "api/daemon/agent_health.h"

namespace svcmap::api {
namespace {

// svcmapd checks a foreign change within milliseconds. /healthz fails only if the tables stay
// unverified for longer than this time.
constexpr std::chrono::seconds kUnverifiedFor{2};

// Returns nftables.syncPeriod of the --config file, or the default.
std::chrono::nanoseconds SyncPeriod(const DaemonOptions& options) {
  return options.config ? options.config->config.nftables.sync_period : proxy::kSyncPeriod;
}

}  // namespace

proxy::Health HealthOf(const proxy::LoopStatus& status, bool watching,
                       const DaemonOptions& options) {
  const auto now = std::chrono::steady_clock::now();
  const bool verified =
      status.verified || (status.last_verified && now - *status.last_verified < kUnverifiedFor);
  return proxy::MakeHealth({.oldest_unsynced = status.oldest_unsynced,
                            .last_synced = status.last_sync,
                            .state_complete = status.complete,
                            .verified = verified,
                            .watching = watching,
                            .node_eligible = status.node_eligible,
                            .node_known = status.node_known,
                            .node_name = options.node_name},
                           now, SyncPeriod(options));
}

}  // namespace svcmap::api
