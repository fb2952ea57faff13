#include "proxy/health/health_check.h"

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

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
