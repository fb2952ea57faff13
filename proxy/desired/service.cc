#include "proxy/desired/service.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

#include "proxy/desired/ranges.h"
#include "proxy/desired/slots.h"

namespace svcmap::proxy {
namespace {

// Maximum number of slots of a group that change in one commit.
constexpr size_t kMaxChangedSlots = 5000;

size_t ChangedSlots(const std::vector<EndpointAddress>& before,
                    const std::vector<EndpointAddress>& after) {
  const size_t common = std::min(before.size(), after.size());
  size_t changed = std::max(before.size(), after.size()) - common;
  for (size_t i = 0; i < common; ++i) changed += before[i] == after[i] ? 0 : 1;
  return changed;
}

// Identifies a Service port by name and protocol. If only the port number changes, the port counts
// as the same port (S-122). A range that becomes a single port needs other numbers: packets to the
// range and to the port look up endpoints in different maps.
using PortIdentity = std::tuple<Family, std::string_view, Protocol, bool>;
PortIdentity IdentityOf(const PortRows& port) {
  return {port.family, port.name, port.protocol, port.is_range()};
}

// Returns the name and protocol of a Service port or EndpointSlice port, such as `http/TCP`.
std::string NameOf(const auto& port) {
  return (port.name.empty() ? "\"\"" : port.name) + "/" + std::string(ProtocolName(port.protocol));
}

// Returns the names and protocols of a list of ports, which can have 65,535 ports.
auto NamesOf(const auto& ports) {
  absl::flat_hash_set<std::pair<std::string_view, Protocol>> names;
  for (const auto& port : ports) names.emplace(port.name, port.protocol);
  return names;
}

class Builder {
 public:
  // `numbered`: applied or found rows with numbers of the Service's ports.
  Builder(const ServiceEntry& entry, DesiredContext& context, const ServiceRows* before,
          const ServiceRows& numbered)
      : entry_(entry),
        slice_ports_(entry),
        service_(*entry.service),
        context_(context),
        uses_of_others_(context.timer_uses) {
    for (const PortRows& port : numbered.ports) ports_before_.emplace(IdentityOf(port), &port);
    if (before != nullptr) CountTimers(*before, -1, uses_of_others_);
  }

  DesiredService Build() {
    if (service_.reset_stale_tcp.value_or(context_.node.reset_stale_tcp)) {
      desired_.rows.tcp_resets = context_.node.tcp_resets;
    }
    AddSources();
    for (const Family family : kFamilies) {
      if (!service_.cluster_ip[Index(family)]) continue;
      any_local_ = false;
      desired_.rows.cluster_ips.push_back(*service_.cluster_ip[Index(family)]);
      const std::vector<Destination> destinations = Destinations(family);
      for (const ServicePort& port : service_.ports) AddPort(family, port, destinations);
      if (context_.node.answer_ping) AddPingAddresses(destinations);
      CheckClusterIp(family);
      CheckHealthCheckPort(family);
      BoundSources(family);
    }
    CheckSlicePorts();
    return std::move(desired_);
  }

 private:
  // Adds the sources allowed to use the load balancer IPs. If the node is an allowed source,
  // looped-back packets with a load balancer IP as source are also allowed (S-118).
  void AddSources() {
    std::vector<IpPrefix> blocks = service_.source_ranges;
    for (const Family family : kFamilies) {
      const IpAddress& own_ip = context_.node.own_ip[Index(family)];
      const auto contains_node = [&](const IpPrefix& block) { return block.Contains(own_ip); };
      if (std::ranges::none_of(service_.source_ranges, contains_node)) continue;
      for (const IpAddress& vip : service_.load_balancer_ips) {
        if (vip.family() != family) continue;
        blocks.emplace_back(vip, static_cast<uint8_t>(vip.size() * 8));
      }
    }
    desired_.rows.sources = MergeRanges(blocks);
  }

  // If the source ranges exceed the limit, no source is allowed. Denying access is safer than
  // allowing every source.
  void BoundSources(Family family) {
    const size_t wanted = SourceRowCount(desired_.rows, family);
    if (wanted <= context_.source_rows[Index(family)]) return;
    std::erase_if(desired_.rows.sources,
                  [family](const AddressRange& range) { return range.first.family() == family; });
    const std::string name(FamilyName(family));
    Warn("spec.loadBalancerSourceRanges", FindingCode::kTooMany, std::to_string(wanted),
         "svcmap's limit is " + std::to_string(kMaxSourceRows) +
             " ranges of all Services together, counted for each " + name +
             " load balancer IP and port, or protocol of port ranges; the " + name +
             " load balancer IPs of the Service accept no traffic");
  }

  // An address of the Service. All ports of the Service are reachable at the address.
  struct Destination {
    IpAddress address;
    DispatchKind kind;
    const char* field;
    bool firewalled = false;
  };

  DispatchKind ExternalKind() const {
    return service_.external_policy == TrafficPolicy::kLocal ? DispatchKind::kExternalLocal
                                                             : DispatchKind::kExternal;
  }

  // Returns each address once. If an address has several roles, the first role counts, so a
  // clusterIP remains a clusterIP.
  std::vector<Destination> Destinations(Family family) const {
    std::vector<Destination> destinations;
    absl::flat_hash_map<IpAddress, size_t> known;
    const auto add = [&](const IpAddress& address, DispatchKind kind, const char* field,
                         bool firewalled) {
      if (address.family() != family) return;
      const auto [found, added] = known.try_emplace(address, destinations.size());
      if (added) destinations.push_back({address, kind, field});
      destinations[found->second].firewalled |= firewalled;
    };
    add(*service_.cluster_ip[Index(family)], DispatchKind::kInternal, "spec.clusterIP", false);
    for (const IpAddress& address : service_.external_ips) {
      add(address, ExternalKind(), "spec.externalIPs", false);
    }
    const bool firewalled = service_.HasSourceRanges(family);
    for (const IpAddress& address : service_.load_balancer_ips) {
      add(address, ExternalKind(), "status.loadBalancer.ingress", firewalled);
    }
    return destinations;
  }

  // Addresses with source ranges do not answer, because the ranges apply to ports only. Call after
  // AddPort.
  void AddPingAddresses(const std::vector<Destination>& destinations) {
    for (const Destination& to : destinations) {
      const bool routed = IsRouted(to.kind) && !any_local_;
      if (!to.firewalled && !routed) desired_.rows.ping_addresses.push_back(to.address);
    }
  }

  // Returns true if packets to an address of this kind are routed while no endpoint is local.
  bool IsRouted(DispatchKind kind) const {
    return kind == DispatchKind::kExternalLocal && service_.route_without_local;
  }

  void AddPort(Family family, const ServicePort& port,
               const std::vector<Destination>& destinations) {
    if (port.is_range() && !context_.node.port_ranges) {
      // The warning applies to both families.
      if (family == Family::kIpv6 && service_.cluster_ip[Index(Family::kIpv4)]) return;
      Warn(port, FindingCode::kForbidden, port.RangeText(),
           "svcmapd runs without --port-ranges; the port range is not programmed");
      return;
    }
    PortRows rows{.family = family,
                  .name = port.name,
                  .protocol = port.protocol,
                  .port = port.port,
                  .end_port = port.end_port,
                  .internal_local = service_.internal_policy == TrafficPolicy::kLocal};
    for (const Destination& to : destinations) {
      if (!Owns(PortClaim(to.address, port), to.field)) continue;
      rows.addresses.push_back({to.address, port.port, to.kind, to.firewalled});
    }
    if (port.node_port != 0) AddNodePort(rows, port.node_port, ExternalKind());
    // Without an address, no packet reaches the endpoints.
    if (!rows.addresses.empty()) AddEndpoints(rows, port);
    desired_.rows.ports.push_back(std::move(rows));
  }

  // If a Service claims a node address with the same port, this claim takes precedence over the
  // nodePort (S-94).
  void AddNodePort(PortRows& rows, uint16_t node_port, DispatchKind kind) {
    if (!Owns(NodePortClaim(rows.family, rows.protocol, node_port), "spec.ports[].nodePort"))
      return;
    for (const IpAddress& address : context_.node.node_port_addresses) {
      if (address.family() != rows.family) continue;
      if (context_.claims.Owner({address, rows.protocol, node_port}) != nullptr) continue;
      rows.addresses.push_back(
          {address, node_port, kind, /*firewalled=*/false, /*node_port=*/true});
    }
  }

  // All packets to other ports of a clusterIP are rejected in the forward and output hooks.
  void CheckClusterIp(Family family) {
    const IpAddress& address = *service_.cluster_ip[Index(family)];
    const ReservedAddresses& reserved = context_.node.reserved;
    const auto is_in = [&](const auto& list) { return std::ranges::binary_search(list, address); };
    if (is_in(reserved.of_node)) {
      Warn("spec.clusterIP", FindingCode::kInvalid, address.ToString(),
           "must not be an address of a node, but is an address of this node; connections from "
           "this node and from pods of other nodes to other ports of the address are rejected");
    } else if (is_in(reserved.of_gateways)) {
      Warn("spec.clusterIP", FindingCode::kInvalid, address.ToString(),
           "must not be the address of a host, but is a default gateway of this node; connections "
           "from this node and its pods to other ports of the address are rejected");
    }
  }

  // A health check port needs no rows, because proxy/health listens on the port. The claim prevents
  // two Services from using the same port. Connections to a nodePort do not reach the listener.
  void CheckHealthCheckPort(Family family) {
    const uint16_t port = service_.health_check_node_port;
    if (port == 0) return;
    if (!Owns(HealthCheckClaim(family, port), "spec.healthCheckNodePort")) return;
    const Service* owner = context_.claims.Owner(NodePortClaim(family, Protocol::kTcp, port));
    if (owner == nullptr || (family == Family::kIpv6 && service_.cluster_ip[0] &&
                             owner->cluster_ip[0])) {  // Already reported for IPv4.
      return;
    }
    Warn("spec.healthCheckNodePort", FindingCode::kDuplicate, std::to_string(port),
         "is also a nodePort of Service " + owner->key +
             "; load balancers that check the health of this Service reach the other Service");
  }

  // Reports EndpointSlices with endpoints that a port of the Service does not use, because no port
  // of the slice has its name and protocol (S-21). A slice that has only some of the Service's
  // ports is usual: the pods of the slice do not have the others.
  void CheckSlicePorts() {
    constexpr size_t kMaxSlices = 10;
    const auto names = NamesOf(service_.ports);
    size_t reported = 0;
    for (const auto& slice : entry_.slices) {
      if (slice->endpoints.empty() || !service_.cluster_ip[Index(slice->family)]) continue;
      size_t matching = 0;
      const EndpointPort* other = nullptr;
      for (const EndpointPort& port : slice->ports) {
        if (names.contains({port.name, port.protocol})) {
          ++matching;
        } else if (other == nullptr) {
          other = &port;
        }
      }
      if (matching >= service_.ports.size() || (matching > 0 && other == nullptr)) continue;
      if (++reported > kMaxSlices) return;
      ReportSlice(*slice, other);
    }
  }

  // `other`: a port of the slice that the Service does not have, or null.
  void ReportSlice(const EndpointSlice& slice, const EndpointPort* other) {
    const auto unused =
        std::ranges::find_if(service_.ports, [names = NamesOf(slice.ports)](const auto& port) {
          return !names.contains({port.name, port.protocol});
        });
    if (unused == service_.ports.end()) return;
    const std::string effect = "port " + NameOf(*unused) + " of Service " + service_.key +
                               " gets no endpoints from this EndpointSlice";
    desired_.findings.push_back(
        {.severity = Finding::Severity::kWarning,
         .kind = Kind::kEndpointSlice,
         .key = slice.key,
         .field = "ports",
         .code = other != nullptr ? FindingCode::kInvalid : FindingCode::kRequired,
         .value = other != nullptr ? NameOf(*other) : "",
         .reason = other != nullptr
                       ? "the Service has no port with this name and protocol, and " + effect
                       : effect + ", because no port has this name and protocol"});
  }

  bool Owns(const ClaimKey& claim, const char* field) {
    const Service* owner = context_.claims.Owner(claim);
    if (owner != nullptr && owner->key == service_.key) return true;
    Warn(field, FindingCode::kDuplicate, claim.ToString(),
         "already used by Service " + (owner != nullptr ? owner->key : std::string("?")) +
             ", which is older, was received first, or is first by name; " +
             (claim.role == ClaimKey::Role::kPortRanges
                  ? "its port ranges are the only ones at this address"
                  : "not programmed"));
    return false;
  }

  void AddEndpoints(PortRows& rows, const ServicePort& port) {
    ResolvedEndpoints resolved =
        ResolveEndpoints(slice_ports_, rows.family, port, context_.node.place);
    if (resolved.local.empty()) {
      std::erase_if(rows.addresses,
                    [this](const ReachedAt& at) { return IsRouted(at.kind) && !at.node_port; });
    } else {
      any_local_ = true;
    }
    if (!resolved.any || rows.addresses.empty()) return;
    KeepReachedSets(rows, resolved);
    Shorten(port, resolved.cluster, resolved.cluster_weights);
    Shorten(port, resolved.local, resolved.local_weights);
    const PortRows* before = PortBefore(rows);
    AddAffinity(rows, port, before, resolved);
    if (!rows.affinity) rows.pick_by = PickByFor(port, resolved);
    rows.any = FillSet(rows, before, &PortRows::cluster,
                       SlotsFor(rows, std::move(resolved.cluster), resolved.cluster_weights)) &&
               FillSet(rows, before, &PortRows::local,
                       SlotsFor(rows, std::move(resolved.local), resolved.local_weights));
    if (!rows.any) {
      Warn(port, FindingCode::kLimit, "",
           "all endpoint groups are in use; new connections to the port are rejected");
      return;
    }
    rows.hairpins = std::move(resolved.reachable_here);
  }

  // Removes an endpoint set that no address of the port leads to. A later run finds the groups in
  // the kernel by the descriptors of the addresses.
  static void KeepReachedSets(const PortRows& rows, ResolvedEndpoints& resolved) {
    bool cluster = false, local = false;
    for (const ReachedAt& at : rows.addresses) {
      const bool internal_local = at.kind == DispatchKind::kInternal && rows.internal_local;
      cluster |= !internal_local;
      local |= internal_local || at.kind == DispatchKind::kExternalLocal;
    }
    if (!cluster) resolved.cluster.clear();
    if (!local) resolved.local.clear();
  }

  // Returns the applied or found rows of the port, or null.
  const PortRows* PortBefore(const PortRows& port) const {
    const auto found = ports_before_.find(IdentityOf(port));
    return found == ports_before_.end() ? nullptr : found->second;
  }

  PickBy PickByFor(const ServicePort& port, const ResolvedEndpoints& resolved) {
    const PickBy pick_by = service_.pick_by;
    if (pick_by == PickBy::kRandom) return PickBy::kRandom;
    const size_t endpoints = std::max(resolved.cluster.size(), resolved.local.size());
    if (!context_.node.hash_picks) {
      Warn(port, FindingCode::kForbidden, "",
           "the kernel does not support hashes (module nft_hash); endpoints are picked at random");
      return PickBy::kRandom;
    }
    if (endpoints > kMaxHashedEndpoints) {
      Warn(port, FindingCode::kLimit, std::to_string(endpoints),
           "at most " + std::to_string(kMaxHashedEndpoints) +
               " endpoints can be picked by hash; endpoints are picked at random");
      return PickBy::kRandom;
    }
    return pick_by;
  }

  // Returns the endpoint of each slot. For random picks, the result is in the format of
  // AssignSlots.
  std::vector<EndpointAddress> SlotsFor(const PortRows& rows,
                                        std::vector<EndpointAddress> endpoints,
                                        const std::vector<uint16_t>& weights) const {
    if (rows.pick_by == PickBy::kRandom || endpoints.empty()) {
      return Weighted(std::move(endpoints), weights);
    }
    return MakeHashTable(endpoints, weights, PickTableSize(service_, endpoints.size()));
  }

  void Shorten(const ServicePort& port, std::vector<EndpointAddress>& endpoints,
               std::vector<uint16_t>& weights) {
    if (endpoints.size() <= kMaxEndpoints) return;
    Warn(port, FindingCode::kTooMany, std::to_string(endpoints.size()),
         "exceeds svcmap's limit of " + std::to_string(kMaxEndpoints) +
             " endpoints; the remaining endpoints are ignored");
    endpoints.resize(kMaxEndpoints);
    if (!weights.empty()) weights.resize(kMaxEndpoints);
  }

  void AddAffinity(PortRows& rows, const ServicePort& port, const PortRows* before,
                   const ResolvedEndpoints& resolved) {
    if (service_.affinity_seconds == 0) return;
    std::vector<EndpointAddress> endpoints;
    std::set_union(resolved.cluster.begin(), resolved.cluster.end(), resolved.local.begin(),
                   resolved.local.end(), std::back_inserter(endpoints));
    Affinity affinity;
    if (endpoints.size() > kMaxStickyEndpoint) {
      // The port has too many endpoints and gets no affinity number.
    } else if (before != nullptr && before->affinity) {
      affinity = *before->affinity;
    } else {
      affinity.port_number = context_.numbers.Of(NumberPool::kStickyPorts, rows.family).Allocate();
    }
    if (affinity.port_number == 0) {
      Warn(port, FindingCode::kLimit, "",
           "session affinity is not programmed: at most " + std::to_string(kMaxStickyPort) +
               " Service ports of an IP family can have session affinity, with at most " +
               std::to_string(kMaxStickyEndpoint) + " endpoints each");
      return;
    }
    affinity.timer = context_.timers.For(service_.affinity_seconds, uses_of_others_);
    const uint32_t seconds = context_.timers.seconds()[affinity.timer];
    if (seconds != service_.affinity_seconds) {
      Warn(port, FindingCode::kLimit, "",
           std::to_string(kMaxTimers) +
               " different session affinity timeouts are possible at the same time; " +
               std::to_string(seconds) + " s is used instead of " +
               std::to_string(service_.affinity_seconds) + " s");
    }
    NumberEndpoints(endpoints, affinity);
    rows.affinity = std::move(affinity);
  }

  // Returns false if no group number is free. `wanted` has the same format as in AssignSlots.
  bool FillSet(PortRows& rows, const PortRows* before, EndpointSet PortRows::*which,
               std::vector<EndpointAddress> wanted) {
    if (wanted.empty()) return true;
    EndpointSet& set = rows.*which;
    const bool kept = before != nullptr && (before->*which).group != 0 &&
                      before->affinity.has_value() == rows.affinity.has_value() &&
                      before->is_range() == rows.is_range();
    if (kept) {
      const std::vector<EndpointAddress>& slots_before = (before->*which).slots;
      set.group = (before->*which).group;
      set.slots = rows.pick_by == PickBy::kRandom ? AssignSlots(slots_before, wanted) : wanted;
      if (ChangedSlots(slots_before, set.slots) <= kMaxChangedSlots) return true;
    }
    // The elements of a new group are added before the commit that switches to the group. The slots
    // of a group that stays change in one commit, which must not block the kernel for long.
    const NumberPool pool = rows.affinity ? NumberPool::kStickyGroups : NumberPool::kGroups;
    const uint32_t group = context_.numbers.Of(pool, rows.family).Allocate();
    if (group == 0) return kept;
    set.group = group;
    set.slots = std::move(wanted);
    return true;
  }

  // `port` is an element of service_.ports.
  void Warn(const ServicePort& port, FindingCode code, std::string value, std::string reason) {
    Warn("spec.ports[" + std::to_string(&port - service_.ports.data()) + "]", code,
         std::move(value), std::move(reason));
  }

  void Warn(std::string field, FindingCode code, std::string value, std::string reason) {
    desired_.findings.push_back({.severity = Finding::Severity::kWarning,
                                 .kind = Kind::kService,
                                 .key = service_.key,
                                 .field = std::move(field),
                                 .code = code,
                                 .value = std::move(value),
                                 .reason = std::move(reason)});
  }

  const ServiceEntry& entry_;
  const SlicePorts slice_ports_;
  const Service& service_;
  DesiredContext& context_;
  absl::flat_hash_map<PortIdentity, const PortRows*> ports_before_;
  TimerUses uses_of_others_;
  bool any_local_ = false;  // Whether a port has a local endpoint in the current family.
  DesiredService desired_;
};

// Returns the numbers in `all` that `others` does not contain.
std::vector<Number> Without(const std::vector<Number>& all, const std::vector<Number>& others) {
  if (all == others) return {};
  const absl::flat_hash_set<Number> excluded(others.begin(), others.end());
  std::vector<Number> result;
  std::copy_if(all.begin(), all.end(), std::back_inserter(result),
               [&](const Number& number) { return !excluded.contains(number); });
  return result;
}

}  // namespace

std::vector<Number> NumbersOf(const ServiceRows& service) {
  std::vector<Number> numbers;
  for (const PortRows& port : service.ports) {
    const NumberPool pool = port.affinity ? NumberPool::kStickyGroups : NumberPool::kGroups;
    for (const EndpointSet* set : {&port.cluster, &port.local}) {
      if (set->group != 0) numbers.push_back({pool, port.family, set->group});
    }
    if (port.affinity) {
      numbers.push_back({NumberPool::kStickyPorts, port.family, port.affinity->port_number});
    }
  }
  return numbers;
}

DesiredService MakeDesiredService(const ServiceEntry* entry, DesiredContext& context,
                                  const ServiceRows* before) {
  DesiredService desired;
  ServiceRows found;
  if (entry != nullptr && entry->service && entry->service->proxied) {
    if (before == nullptr && context.found != nullptr) found = context.found->Find(*entry->service);
    desired = Builder(*entry, context, before, before != nullptr ? *before : found).Build();
  }
  const std::vector<Number> old_numbers = NumbersOf(before != nullptr ? *before : found);
  const std::vector<Number> numbers = NumbersOf(desired.rows);
  desired.new_numbers = Without(numbers, old_numbers);
  // Numbers of found rows become free when all Services are written.
  if (before != nullptr) desired.old_numbers = Without(old_numbers, numbers);
  return desired;
}

}  // namespace svcmap::proxy
