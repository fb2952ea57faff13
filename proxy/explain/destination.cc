#include "proxy/explain/destination.h"

#include <iterator>
#include <memory>

#include "absl/algorithm/container.h"
#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "proxy/explain/sources.h"
#include "proxy/node/nodeport_addresses.h"

namespace svcmap::proxy {
namespace {

void SetPorts(uint16_t port, ResolvedEndpoints& resolved) {
  for (auto* endpoints : {&resolved.cluster, &resolved.local, &resolved.reachable_here}) {
    for (EndpointAddress& endpoint : *endpoints) endpoint.port = port;
  }
}

// Finds the Service port for the destination. An exact match of address and port takes precedence
// over nodePorts (S-94). If an address has several roles in its Service, the first role counts, as
// in proxy/desired.
void FindOwner(const ExplainContext& context, Destination& to) {
  const Claims& claims = context.store.claims();
  const Service* owner = claims.Owner({to.address, to.protocol, to.number});
  const bool exact = owner != nullptr;
  // The address accepts TCP nodePorts on localhost (S-113).
  const bool localhost = context.localhost_node_ports[Index(to.family())] &&
                         to.protocol == Protocol::kTcp &&
                         to.address == LocalhostAddress(to.family());
  if (!exact &&
      (localhost || absl::c_linear_search(context.node.node_port_addresses, to.address))) {
    owner = claims.Owner(NodePortClaim(to.family(), to.protocol, to.number));
  }
  const bool node_port = !exact && owner != nullptr;
  const bool range = owner == nullptr;
  if (range) owner = claims.Owner(PortRangesClaim(to.address, to.protocol));
  if (owner == nullptr) return;
  const auto port = absl::c_find_if(owner->ports, [&](const ServicePort& candidate) {
    if (candidate.protocol != to.protocol) return false;
    if (node_port) return candidate.node_port == to.number;
    if (exact) return candidate.port == to.number && !candidate.is_range();
    return candidate.is_range() && candidate.port <= to.number && to.number <= candidate.end_port;
  });
  if (port == owner->ports.end()) return;
  if (range && !context.node.port_ranges) {
    to.unused_range = port->RangeText() + " of " + owner->key;
    return;
  }
  to.entry = context.store.Find(owner->key);
  to.port = &*port;
  to.role = node_port                                                ? Role::kNodePort
            : owner->cluster_ip[Index(to.family())] == to.address    ? Role::kClusterIp
            : absl::c_linear_search(owner->external_ips, to.address) ? Role::kExternalIp
                                                                     : Role::kLoadBalancerIp;
  to.localhost = localhost && node_port;
  to.resolved = ResolveEndpoints(*to.entry, to.family(), *to.port, context.node.place);
  if (to.port->is_range()) SetPorts(to.number, to.resolved);
}

// Returns a text that names EndpointSlices of the Service's namespace that belong to no stored
// Service, because their label can be misspelled.
std::string TextWithoutSlices(const Store& store, const Service& service, Family family) {
  constexpr size_t kMaxNamed = 3;
  const std::string name_space = service.key.substr(0, service.key.find('/') + 1);
  absl::btree_set<std::shared_ptr<const EndpointSlice>, SliceKeyLess> others;
  for (const auto& [key, slice] : store.slices()) {
    if (slice->family != family || !key.starts_with(name_space)) continue;
    const ServiceEntry* entry = store.Find(slice->service_key);
    if (entry != nullptr && entry->service != nullptr) continue;
    others.insert(slice);
    if (others.size() > kMaxNamed) others.erase(std::prev(others.end()));
  }
  std::string text =
      absl::StrCat("no ", std::string(FamilyName(family)), " EndpointSlice has the label ",
                   "kubernetes.io/service-name: ", service.key.substr(name_space.size()));
  for (const auto& slice : others) {
    absl::StrAppend(&text, "; EndpointSlice ", slice->key,
                    slice->service_key.empty()
                        ? " has no such label"
                        : " names Service " + slice->service_key + ", which is not stored");
  }
  return text;
}

// Keeps the alphabetically first key, so that the result does not depend on the iteration order.
void KeepFirst(const std::string& key, std::string& first) {
  if (first.empty() || key < first) first = key;
}

void Survey(const Store& store, Destination& to) {
  const auto is_endpoint = [&](const IpAddress& address) {
    const auto at = [&](const EndpointAddress& endpoint) { return endpoint.ip == address; };
    return absl::c_any_of(to.resolved.cluster, at) || absl::c_any_of(to.resolved.local, at);
  };
  for (const auto& [key, entry] : store.services()) {
    if (!entry.service || !entry.service->proxied) continue;
    const std::optional<IpAddress>& cluster_ip = entry.service->cluster_ip[Index(to.family())];
    if (!cluster_ip) continue;  // Skips a Service that has no port in this family (S-3).
    if (*cluster_ip == to.address) KeepFirst(key, to.cluster_ip_of);
    if (absl::c_linear_search(entry.service->external_ips, to.address) ||
        absl::c_linear_search(entry.service->load_balancer_ips, to.address)) {
      KeepFirst(key, to.listed_by);
    }
    if (is_endpoint(*cluster_ip)) to.chained = cluster_ip;
  }
  for (const auto& [name, object] : store.service_cidrs()) {
    for (const IpPrefix& cidr : object->cidrs) {
      if (cidr.Contains(to.address)) to.service_cidr = &cidr;
    }
  }
}

}  // namespace

Destination FindDestination(const ExplainContext& context, const Question& question) {
  Destination to{
      .address = question.destination, .protocol = question.protocol, .number = question.port};
  to.local = IsLocal(context, to.address);
  FindOwner(context, to);
  if (to.known() && absl::c_none_of(to.entry->slices, [&](const auto& slice) {
        return slice->family == to.family();
      })) {
    to.without_slices = TextWithoutSlices(context.store, to.service(), to.family());
  }
  Survey(context.store, to);
  return to;
}

}  // namespace svcmap::proxy
