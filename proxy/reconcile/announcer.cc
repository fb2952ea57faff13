#include "proxy/reconcile/announcer.h"

#include <utility>

namespace svcmap::proxy {

void Announcer::Announce(SyncPlan& sync_plan, SyncResult& result) {
  result.endpoints.any = sync_plan.node_rows.has_value();
  result.udp.reserve(sync_plan.dirty.size());
  for (DirtyService& dirty : sync_plan.dirty) {
    const ServiceMoves moves = store_.TakeMoves(dirty.key);
    const ServiceHash service = HashOfService(dirty.key);
    const ServiceRows* rows = applied_.Find(dirty.key);
    result.endpoints.any |= moves.any;
    for (const IpAddress& address : moves.added) {
      result.endpoints.added.emplace_back(service, address);
    }
    const bool resets = rows != nullptr && rows->tcp_resets != TcpResets::kOff;
    for (const auto& [address, port] : moves.left) {
      if (resets) result.endpoints.left.emplace_back(service, EndpointAddress{address, port});
    }
    AddHealthCheck(dirty.key, result);
    AddLocalhostNodePorts(dirty.key, result);
    UdpPorts ports = MakeUdpPorts(store_.Find(dirty.key), rows);
    result.udp.emplace_back(std::move(dirty.key), std::move(ports));
  }
}

void Announcer::AddHealthCheck(const std::string& key, SyncResult& result) {
  std::optional<HealthCheck> check = HealthCheckOf(store_.Find(key), store_.claims());
  const bool had = check ? !health_checked_.insert(key).second : health_checked_.erase(key) > 0;
  if (check || had) result.health_checks.emplace_back(key, check);
}

void Announcer::AddLocalhostNodePorts(const std::string& key, SyncResult& result) {
  if (!options_.localhost_node_ports[0] && !options_.localhost_node_ports[1]) return;
  LocalhostNodePorts node_ports = LocalhostNodePortsOf(
      store_.Find(key), store_.claims(), node_.facts().place, options_.localhost_node_ports);
  const bool had =
      node_ports.empty() ? on_localhost_.erase(key) > 0 : !on_localhost_.insert(key).second;
  if (had || !node_ports.empty()) {
    result.localhost_node_ports.emplace_back(key, std::move(node_ports));
  }
}

}  // namespace svcmap::proxy
