#include "proxy/health/health.h"

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

Health MakeHealth(const LoopFacts& facts, std::chrono::steady_clock::time_point now,
                  std::chrono::nanoseconds sync_period) {
  const bool stuck = facts.oldest_unsynced && (now - *facts.oldest_unsynced) / 2 >= sync_period;
  Health health{
      .last_synced = facts.last_synced, .live = !stuck, .node_eligible = facts.node_eligible};
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

std::optional<HealthCheck> HealthCheckOf(const ServiceEntry* entry, const Claims& claims) {
  if (entry == nullptr || !entry->service) return std::nullopt;
  const Service& service = *entry->service;
  if (!service.proxied || service.health_check_node_port == 0) return std::nullopt;
  HealthCheck check{.port = service.health_check_node_port};
  for (const Family family : kFamilies) {
    const size_t index = Index(family);
    if (!service.cluster_ip[index]) continue;  // Skips a family without a Service address (S-3).
    const Service* owner = claims.Owner(HealthCheckClaim(family, check.port));
    if (owner == nullptr || owner->key != service.key) continue;
    check.families[index] = true;
    check.local_endpoints[index] = static_cast<uint32_t>(ReadyAddressesHere(*entry, family).size());
  }
  if (!check.families[0] && !check.families[1]) return std::nullopt;
  return check;
}

}  // namespace svcmap::proxy
