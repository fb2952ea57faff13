#include "proxy/reconcile/node_follower.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "proxy/desired/node_rows.h"

namespace svcmap::proxy {

namespace {

// Returns the addresses that only one of the two contains, ascending per list.
std::vector<IpAddress> Difference(const ReservedAddresses& a, const ReservedAddresses& b) {
  std::vector<IpAddress> difference;
  std::ranges::set_symmetric_difference(a.of_node, b.of_node, std::back_inserter(difference));
  std::ranges::set_symmetric_difference(a.of_gateways, b.of_gateways,
                                        std::back_inserter(difference));
  return difference;
}

}  // namespace

void NodeFollower::SetInterfaceAddresses(NodeAddresses addresses) {
  addresses_ = std::move(addresses);
  interfaces_.clear();
  for (const InterfaceAddress& address : addresses_.interfaces) {
    interfaces_.push_back(address.address);
  }
  committed_version_ = kNeverCommitted;
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
  facts.reserved = ReservedAddressesOf(addresses_);
  for (const Family family : kFamilies) {
    const IpAddress* own_ip = PrimaryAddress(node, family);
    facts.own_ip[Index(family)] = own_ip != nullptr ? *own_ip : LocalhostAddress(family);
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
  NodeFacts before = std::exchange(facts_, FactsNow());
  const std::vector<IpAddress> moved = Difference(before.reserved, facts_.reserved);
  // Addresses can change with each pod, so all Services are visited only if it is necessary.
  // Services that are not applied yet are dirty.
  const auto is_cluster_ip = [this](const IpAddress& address) {
    return applied_.shared().contains(SharedKey({address.family(), kClusterIps}, address.bytes()));
  };
  if (std::ranges::none_of(moved, is_cluster_ip)) before.reserved = facts_.reserved;
  if (before != facts_) store_.MarkDirtyIf(DependsOn(before, facts_));
}

NodePortUse NodeFollower::UseNow(const NodeFacts& facts) const {
  return NodePortUseOf(store_, facts.node_port_addresses, options_.max_elements);
}

std::vector<Finding> NodeFollower::Findings(const NodeFacts& facts) const {
  std::vector<IpPrefix> pods;
  const Node* node = ThisNode();
  for (const Family family : kFamilies) {
    if (const auto block = PodBlock(options_.ruleset, node, family)) pods.push_back(*block);
    if (node != nullptr && node->pod_cidr[Index(family)]) {
      pods.push_back(*node->pod_cidr[Index(family)]);
    }
  }
  return NodeFindings({.store = store_,
                       .node_name = options_.node_name,
                       .addresses = addresses_,
                       .node_port_addresses = options_.node_port_addresses,
                       .accepted = facts.node_port_addresses,
                       .pod_cidrs = std::move(pods),
                       .max_elements = options_.max_elements});
}

std::function<bool(const ServiceEntry&)> DependsOn(const NodeFacts& before,
                                                   const NodeFacts& after) {
  const bool ports = before.node_port_addresses != after.node_port_addresses;
  const bool place = before.place != after.place;
  const bool own_ip = !std::equal(before.own_ip, before.own_ip + 2, after.own_ip);
  const std::vector<IpAddress> moved = Difference(before.reserved, after.reserved);
  return [ports, place, own_ip, moved](const ServiceEntry& entry) {
    const auto has_node_port = [](const ServicePort& port) { return port.node_port != 0; };
    const auto has_hints = [](const auto& slice) { return !slice->hints.empty(); };
    const std::vector<ServicePort>& service_ports = entry.service->ports;
    return (ports && std::any_of(service_ports.begin(), service_ports.end(), has_node_port)) ||
           (place && std::any_of(entry.slices.begin(), entry.slices.end(), has_hints)) ||
           (own_ip && !entry.service->source_ranges.empty()) ||
           std::any_of(moved.begin(), moved.end(), [&](const IpAddress& address) {
             return entry.service->cluster_ip[Index(address.family())] == address;
           });
  };
}

}  // namespace svcmap::proxy
