#include "proxy/desired/service.h"

#include <algorithm>

#include "proxy/desired/slots.h"

namespace svcmap::proxy {
namespace {

const PortRows* FindPort(const ServiceRows* service, Family family, const ServicePort& port) {
  if (service == nullptr) return nullptr;
  const auto found =
      std::find_if(service->ports.begin(), service->ports.end(), [&](const PortRows& candidate) {
        return candidate.family == family && candidate.protocol == port.protocol &&
               candidate.port == port.port;
      });
  return found == service->ports.end() ? nullptr : &*found;
}

class Builder {
 public:
  Builder(const ServiceEntry& entry, const DesiredContext& context, const ServiceRows* before,
          GroupAllocator& groups)
      : entry_(entry),
        service_(*entry.service),
        context_(context),
        before_(before),
        groups_(groups) {}

  DesiredService Build() {
    for (const Family family : kFamilies) {
      if (!service_.cluster_ip[Index(family)]) continue;
      desired_.rows.cluster_ips.push_back(*service_.cluster_ip[Index(family)]);
      for (const ServicePort& port : service_.ports) AddPort(family, port);
    }
    return std::move(desired_);
  }

 private:
  void AddPort(Family family, const ServicePort& port) {
    PortRows rows{
        .family = family, .name = port.name, .protocol = port.protocol, .port = port.port};
    AddAddress(rows, *service_.cluster_ip[Index(family)], DispatchKind::kPlain, "spec.clusterIP");
    for (const IpAddress& address : service_.external_ips) {
      AddAddress(rows, address, DispatchKind::kExternal, "spec.externalIPs");
    }
    for (const IpAddress& address : service_.load_balancer_ips) {
      AddAddress(rows, address, DispatchKind::kExternal, "status.loadBalancer.ingress");
    }
    if (port.node_port != 0) AddNodePort(rows, port.node_port);
    AddEndpoints(rows, port);
    desired_.rows.ports.push_back(std::move(rows));
  }

  void AddAddress(PortRows& rows, const IpAddress& address, DispatchKind kind, const char* field) {
    if (address.family() != rows.family) return;
    const bool known = std::any_of(rows.addresses.begin(), rows.addresses.end(),
                                   [&](const ReachedAt& at) { return at.address == address; });
    if (known) return;  // The first role wins: a clusterIP stays one.
    if (Owns({address, rows.protocol, rows.port, false}, field)) {
      rows.addresses.push_back({address, rows.port, kind});
    }
  }

  // An address that a Service claims with that port for itself beats the nodePort (S-94).
  void AddNodePort(PortRows& rows, uint16_t node_port) {
    if (!Owns(NodePortClaim(rows.family, rows.protocol, node_port), "spec.ports[].nodePort"))
      return;
    for (const IpAddress& address : context_.node_port_addresses) {
      if (address.family() != rows.family) continue;
      if (context_.claims.Owner({address, rows.protocol, node_port, false}) != nullptr) continue;
      rows.addresses.push_back({address, node_port, DispatchKind::kExternal});
    }
  }

  bool Owns(const ClaimKey& claim, const char* field) {
    const Service* owner = context_.claims.Owner(claim);
    if (owner != nullptr && owner->key == service_.key) return true;
    desired_.findings.push_back(
        {.severity = Finding::Severity::kWarning,
         .kind = Kind::kService,
         .key = service_.key,
         .field = field,
         .value = claim.ToString(),
         .reason = "already belongs to Service " +
                   (owner != nullptr ? owner->key : std::string("?")) +
                   ", which is older or, at the same age, first by name; it is not programmed"});
    return false;
  }

  void AddEndpoints(PortRows& rows, const ServicePort& port) {
    ResolvedEndpoints resolved = ResolveEndpoints(entry_, rows.family, port, context_.node);
    if (resolved.cluster.size() > kMaxEndpoints) {
      Warn(port, std::to_string(resolved.cluster.size()) + " endpoints",
           "are more than " + std::to_string(kMaxEndpoints) + "; the first ones are used");
      resolved.cluster.resize(kMaxEndpoints);
    }
    const PortRows* before = FindPort(before_, rows.family, port);
    const uint32_t old_group = before != nullptr ? before->group : 0;
    if (!resolved.cluster.empty()) {
      rows.group = old_group != 0 ? old_group : NewGroup();
    }
    if (rows.group == 0) {
      if (!resolved.cluster.empty()) {
        Warn(port, std::to_string(port.port), "found no free endpoint group; it is rejected");
      }
      return;
    }
    rows.slots = AssignSlots(old_group != 0 ? before->slots : std::vector<EndpointAddress>(),
                             resolved.cluster);
    rows.local = std::move(resolved.reachable_here);
  }

  uint32_t NewGroup() {
    const uint32_t group = groups_.Allocate();
    if (group != 0) desired_.new_groups.push_back(group);
    return group;
  }

  void Warn(const ServicePort& port, std::string value, std::string reason) {
    desired_.findings.push_back({.severity = Finding::Severity::kWarning,
                                 .kind = Kind::kService,
                                 .key = service_.key,
                                 .field = "spec.ports." + port.name,
                                 .value = std::move(value),
                                 .reason = std::move(reason)});
  }

  const ServiceEntry& entry_;
  const Service& service_;
  const DesiredContext& context_;
  const ServiceRows* before_;
  GroupAllocator& groups_;
  DesiredService desired_;
};

}  // namespace

DesiredService MakeDesiredService(const ServiceEntry* entry, const DesiredContext& context,
                                  const ServiceRows* before, GroupAllocator& groups) {
  DesiredService desired;
  if (entry != nullptr && entry->service && entry->service->proxied) {
    desired = Builder(*entry, context, before, groups).Build();
  }
  if (before != nullptr) {
    for (const PortRows& old : before->ports) {
      const bool kept = old.group == 0 ||
                        std::any_of(desired.rows.ports.begin(), desired.rows.ports.end(),
                                    [&](const PortRows& port) { return port.group == old.group; });
      if (!kept) desired.old_groups.push_back(old.group);
    }
  }
  return desired;
}

}  // namespace svcmap::proxy
