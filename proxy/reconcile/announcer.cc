#include "proxy/reconcile/announcer.h"

#include <utility>

namespace svcmap::proxy {

void Announcer::Announce(SyncPlan& sync_plan, SyncResult& result) {
  for (std::string& key : sync_plan.tcp_resets) {
    TcpEndpoints tcp =
        MakeTcpEndpoints(store_.Find(key), applied_.Find(key), store_.claims(), node_.facts());
    result.tcp.emplace_back(std::move(key), std::move(tcp));
  }
  result.handshakes.any = sync_plan.node_rows.has_value();
  result.udp.reserve(sync_plan.dirty.size());
  for (DirtyService& dirty : sync_plan.dirty) {
    const ServiceMoves moves = store_.TakeMoves(dirty.key);
    result.handshakes.any |= moves.any;
    for (const IpAddress& address : moves.added) {
      result.handshakes.added.emplace_back(HashOfService(dirty.key), address);
    }
    AddHealthCheck(dirty.key, result);
    AddLocalhostNodePorts(dirty.key, result);
    UdpPorts ports = MakeUdpPorts(store_.Find(dirty.key), applied_.Find(dirty.key));
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
