#include "proxy/health/health.h"

#include <algorithm>
#include <iterator>

namespace svcmap::proxy {

bool Live(const Health& health) {
  return std::all_of(std::begin(health.family), std::end(health.family),
                     [](const auto& family) { return !family || family->healthy; });
}

Health MakeHealth(const LoopFacts& facts, std::chrono::steady_clock::time_point now,
                  std::chrono::nanoseconds sync_period) {
  Health health;
  const bool stuck = facts.oldest_unsynced && (now - *facts.oldest_unsynced) / 2 >= sync_period;
  for (auto& family : health.family) family = {facts.last_synced, !stuck};
  health.node_eligible = facts.node_eligible;
  if (!facts.state_complete) {
    health.reason = "complete state not received or not programmed yet";
  } else if (!facts.verified) {
    health.reason = "kernel tables not verified yet";
  } else if (!facts.watching) {
    health.reason = "changes to the tables by other processes are not detected";
  }
  health.ready = health.reason.empty();
  if (health.ready && !facts.node_eligible) {
    health.reason = facts.node_known ? "Node " + facts.node_name +
                                           " is being deleted or has the taint "
                                           "ToBeDeletedByClusterAutoscaler"
                                     : "Node " + facts.node_name +
                                           " unknown: no controller has sent the Node object of "
                                           "this node";
  }
  return health;
}

}  // namespace svcmap::proxy
