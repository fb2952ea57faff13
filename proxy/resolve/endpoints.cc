#include "proxy/resolve/endpoints.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace svcmap::proxy {
namespace {

struct Candidate {
  EndpointAddress address;
  EndpointConditions conditions;
  bool local;
  uint16_t weight;
  const EndpointHints* hints;  // Null if the endpoint has no hints.

  bool drained() const { return weight == 0; }
  bool ready() const { return conditions.ready; }
  bool serving_terminating() const { return conditions.serving && conditions.terminating; }
};

// Orders candidates by address. Candidates with the same address are ordered: non-terminating
// before terminating, then ready before not ready, then serving before not serving. The remaining
// criteria make the result independent of the order of arrival.
bool Before(const Candidate& a, const Candidate& b) {
  const auto order = a.address <=> b.address;
  if (order != 0) return order < 0;
  const auto rank = [](const Candidate& c) {
    return std::tuple((c.conditions.terminating ? 4 : 0) + (c.conditions.ready ? 0 : 2) +
                          (c.conditions.serving ? 0 : 1),
                      -int{c.weight}, (c.local ? 0 : 2) + (c.hints != nullptr ? 0 : 1));
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  return a.hints != nullptr && b.hints != nullptr &&
         std::tie(a.hints->zones, a.hints->nodes) < std::tie(b.hints->zones, b.hints->nodes);
}

auto SlicePortKey(const SlicePorts::Port& at) {
  return std::tuple(at.slice->family, std::string_view(at.port->name), at.port->protocol);
}

// With `number`, all endpoints get this port.
std::vector<Candidate> Merge(std::span<const SlicePorts::Port> ports,
                             std::optional<uint16_t> number = std::nullopt) {
  std::vector<Candidate> candidates;
  size_t count = 0;
  for (const SlicePorts::Port& port : ports) count += port.slice->endpoints.size();
  candidates.reserve(count);
  for (const auto& [slice, port] : ports) {
    for (const Endpoint& endpoint : slice->endpoints) {
      candidates.push_back({{endpoint.address, number.value_or(port->port)},
                            endpoint.conditions,
                            endpoint.local,
                            endpoint.weight,
                            endpoint.hints == 0 ? nullptr : &slice->hints[endpoint.hints - 1]});
    }
  }
  if (!std::ranges::is_sorted(candidates, Before)) std::ranges::sort(candidates, Before);
  const auto last =
      std::unique(candidates.begin(), candidates.end(),
                  [](const auto& a, const auto& b) { return a.address == b.address; });
  candidates.erase(last, candidates.end());
  return candidates;
}

bool Names(const std::vector<std::string>& hints, const std::string& name) {
  return !name.empty() && std::find(hints.begin(), hints.end(), name) != hints.end();
}

bool HintedHere(TopologyMode mode, const Candidate& candidate, const NodePlace& node) {
  if (mode == TopologyMode::kNone) return true;
  if (candidate.hints == nullptr) return false;
  return mode == TopologyMode::kSameNode ? Names(candidate.hints->nodes, node.name)
                                         : Names(candidate.hints->zones, node.zone);
}

// Hints are used only if every ready endpoint has hints of the same kind and at least one hint
// matches this node (S-32).
TopologyMode ModeOf(const std::vector<Candidate>& candidates, const NodePlace& node) {
  bool all_nodes = true, all_zones = true, our_node = false, our_zone = false;
  for (const Candidate& c : candidates) {
    if (!c.ready()) continue;
    all_nodes &= c.hints != nullptr && !c.hints->nodes.empty();
    all_zones &= c.hints != nullptr && !c.hints->zones.empty();
    our_node |= HintedHere(TopologyMode::kSameNode, c, node);
    our_zone |= HintedHere(TopologyMode::kSameZone, c, node);
  }
  if (all_nodes && our_node) return TopologyMode::kSameNode;
  if (all_zones && our_zone) return TopologyMode::kSameZone;
  return TopologyMode::kNone;
}

void ClearIfEqual(std::vector<uint16_t>& weights) {
  if (std::ranges::adjacent_find(weights, std::not_equal_to()) == weights.end()) weights.clear();
}

}  // namespace

SlicePorts::SlicePorts(const ServiceEntry& entry) : service_(entry.service.get()) {
  for (const auto& slice : entry.slices) {
    for (const EndpointPort& port : slice->ports) ports_.push_back({slice.get(), &port});
  }
  std::ranges::stable_sort(ports_, {}, SlicePortKey);
}

std::span<const SlicePorts::Port> SlicePorts::Find(Family family, std::string_view name,
                                                   Protocol protocol) const {
  const std::tuple key(family, name, protocol);
  return {std::ranges::lower_bound(ports_, key, {}, SlicePortKey),
          std::ranges::upper_bound(ports_, key, {}, SlicePortKey)};
}

ResolvedEndpoints ResolveEndpoints(const SlicePorts& slice_ports, Family family,
                                   const ServicePort& port, const NodePlace& node) {
  std::vector<Candidate> candidates =
      Merge(slice_ports.Find(family, port.name, port.protocol),
            port.is_range() ? std::optional<uint16_t>(0) : std::nullopt);
  const Service& service = slice_ports.service();
  const bool external = ExternallyAccessible(service, family, port);
  const bool internal_local = service.internal_policy == TrafficPolicy::kLocal;
  const bool external_local = service.external_policy == TrafficPolicy::kLocal;
  // True if the cluster endpoint set is needed (S-30).
  const bool use_cluster = !internal_local || external;
  // True if the local endpoint set is needed (S-31).
  const bool use_local = internal_local || (external_local && external);

  ResolvedEndpoints resolved;
  std::erase_if(candidates, [&](const Candidate& c) {
    if (c.drained() && (c.ready() || c.serving_terminating())) ++resolved.drained;
    return c.drained();
  });
  for (const Candidate& c : candidates) {
    resolved.any_ready |= c.ready();
    resolved.any_ready_here |= c.ready() && c.local;
  }
  resolved.topology = ModeOf(candidates, node);
  if (use_cluster) {
    resolved.cluster.reserve(candidates.size());
    resolved.cluster_weights.reserve(candidates.size());
  }
  for (const Candidate& c : candidates) {
    resolved.any |= c.ready() || c.serving_terminating();
    const bool in_cluster =
        use_cluster && (resolved.any_ready ? c.ready() && HintedHere(resolved.topology, c, node)
                                           : c.serving_terminating());
    const bool in_local =
        use_local && c.local && (resolved.any_ready_here ? c.ready() : c.serving_terminating());
    if (in_cluster) {
      resolved.cluster.push_back(c.address);
      resolved.cluster_weights.push_back(c.weight);
    }
    if (in_local) {
      resolved.local.push_back(c.address);
      resolved.local_weights.push_back(c.weight);
    }
    if (c.local && (in_cluster || in_local)) resolved.reachable_here.push_back(c.address);
  }
  ClearIfEqual(resolved.cluster_weights);
  ClearIfEqual(resolved.local_weights);
  return resolved;
}

std::vector<EndpointAddress> ServingEndpoints(const SlicePorts& slice_ports, Family family,
                                              const std::string& port_name, Protocol protocol) {
  std::vector<EndpointAddress> serving;
  for (const Candidate& c : Merge(slice_ports.Find(family, port_name, protocol))) {
    if (c.conditions.serving) serving.push_back(c.address);
  }
  return serving;
}

std::vector<IpAddress> ReadyAddressesHere(const ServiceEntry& entry, Family family) {
  const SlicePorts slice_ports(entry);
  std::vector<IpAddress> addresses;
  for (const ServicePort& port : entry.service->ports) {
    for (const Candidate& c : Merge(slice_ports.Find(family, port.name, port.protocol))) {
      if (c.ready() && c.local && !c.drained()) addresses.push_back(c.address.ip);
    }
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

}  // namespace svcmap::proxy
