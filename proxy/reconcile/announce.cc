// Collects the facts about a committed plan that its followers need.
#include <utility>

#include "proxy/reconcile/reconciler.h"

namespace svcmap::proxy {
namespace {

// Adds the value of a Service that has or had one. `known` contains the Services that had one.
template <typename Value, typename Changes>
void AddChange(const std::string& key, Value value, bool has,
               absl::flat_hash_set<std::string>& known, Changes& changes) {
  const bool had = has ? !known.insert(key).second : known.erase(key) > 0;
  if (has || had) changes.emplace_back(key, std::move(value));
}

}  // namespace

// Moves the keys out of sync_plan.dirty.
void Reconciler::Announce(SyncPlan& sync_plan, SyncResult& result) {
  result.endpoints.any = sync_plan.node_rows.has_value();
  if (sync_plan.node_rows) {
    std::vector<IpAddress> addresses =
        HealthCheckAddresses(options_.node_port_addresses, node_.ThisNode(), node_.interfaces());
    if (addresses != health_check_addresses_) {
      result.health_check_addresses = health_check_addresses_ = std::move(addresses);
    }
  }
  result.udp.reserve(sync_plan.dirty.size());
  const auto& [localhost_v4, localhost_v6] = options_.localhost_node_ports;
  for (DirtyService& dirty : sync_plan.dirty) {
    const ServiceMoves moves = store_.TakeMoves(dirty.key);
    const ServiceHash service = HashOfService(dirty.key);
    const ServiceEntry* entry = store_.Find(dirty.key);
    const ServiceRows* rows = applied_.Find(dirty.key);
    result.endpoints.any |= moves.any;
    for (const IpAddress& address : moves.added) {
      result.endpoints.added.emplace_back(service, address);
    }
    const bool resets = rows != nullptr && rows->tcp_resets != TcpResets::kOff;
    for (const auto& [address, port] : moves.left) {
      if (resets) result.endpoints.left.emplace_back(service, EndpointAddress{address, port});
    }
    const std::optional<HealthCheck> check = HealthCheckOf(entry, store_.claims());
    AddChange(dirty.key, check, check.has_value(), health_checked_, result.health_checks);
    if (localhost_v4 || localhost_v6) {
      LocalhostNodePorts ports = LocalhostNodePortsOf(entry, store_.claims(), node_.facts().place,
                                                      options_.localhost_node_ports);
      const bool has = !ports.empty();
      AddChange(dirty.key, std::move(ports), has, on_localhost_, result.localhost_node_ports);
    }
    UdpPorts ports = MakeUdpPorts(entry, rows);
    result.udp.emplace_back(std::move(dirty.key), std::move(ports));
  }
}

}  // namespace svcmap::proxy
