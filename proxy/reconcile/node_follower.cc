#include "proxy/reconcile/node_follower.h"

#include <algorithm>
#include <utility>

#include "proxy/desired/node_rows.h"
#include "proxy/health/health_check.h"
#include "proxy/node/ping_target.h"

namespace svcmap::proxy {

void NodeFollower::SetInterfaceAddresses(std::vector<IpAddress> addresses) {
  interfaces_ = std::move(addresses);
  CompareRows();
}

const Node* NodeFollower::ThisNode() const {
  const auto node = store_.nodes().find(options_.node_name);
  return node == store_.nodes().end() ? nullptr : node->second.get();
}

NodeFacts NodeFollower::FactsNow() const {
  const Node* node = ThisNode();
  NodeFacts facts;
  facts.answer_ping = options_.ruleset.answer_ping;
  facts.tcp_resets = options_.ruleset.tcp_resets;
  facts.reset_stale_tcp = options_.reset_stale_tcp;
  facts.hash_picks = options_.ruleset.hash_picks;
  facts.port_ranges = options_.ruleset.port_ranges;
  facts.place = {options_.node_name, node != nullptr ? node->zone : ""};
  facts.node_port_addresses =
      AcceptedNodePortAddresses(options_.node_port_addresses, node, interfaces_);
  for (const Family family : kFamilies) {
    const IpAddress* own_ip = PrimaryAddress(node, family);
    facts.own_ip[Index(family)] =
        own_ip != nullptr ? *own_ip
                          : *IpAddress::Parse(family == Family::kIpv4 ? "127.0.0.1" : "::1");
    if (!options_.ruleset.answer_ping) continue;
    facts.ping_target[Index(family)] = PingTarget(node, interfaces_, family);
  }
  return facts;
}

std::vector<Row> NodeFollower::Rows(const NodeFacts& facts) const {
  return NodeRows(options_.ruleset, ThisNode(), facts, store_);
}

void NodeFollower::Follow() {
  if (!Changed()) return;
  std::vector<IpAddress> health_checks =
      HealthCheckAddresses(options_.node_port_addresses, ThisNode(), interfaces_);
  if (health_checks != health_check_addresses_) {
    health_check_addresses_ = std::move(health_checks);
    changed_health_check_addresses_ = health_check_addresses_;
  }
  const NodeFacts before = std::exchange(facts_, FactsNow());
  if (before != facts_) store_.MarkDirtyIf(DependsOn(before, facts_));
}

std::optional<std::vector<IpAddress>> NodeFollower::TakeHealthCheckAddresses() {
  return std::exchange(changed_health_check_addresses_, std::nullopt);
}

std::function<bool(const ServiceEntry&)> DependsOn(const NodeFacts& before,
                                                   const NodeFacts& after) {
  const bool ports = before.node_port_addresses != after.node_port_addresses;
  const bool place = before.place != after.place;
  const bool own_ip = !std::equal(before.own_ip, before.own_ip + 2, after.own_ip);
  return [ports, place, own_ip](const ServiceEntry& entry) {
    const auto has_node_port = [](const ServicePort& port) { return port.node_port != 0; };
    const auto has_hints = [](const auto& slice) { return !slice->hints.empty(); };
    const std::vector<ServicePort>& service_ports = entry.service->ports;
    return (ports && std::any_of(service_ports.begin(), service_ports.end(), has_node_port)) ||
           (place && std::any_of(entry.slices.begin(), entry.slices.end(), has_hints)) ||
           (own_ip && !entry.service->source_ranges.empty());
  };
}

}  // namespace svcmap::proxy
