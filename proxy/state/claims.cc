#include "proxy/state/claims.h"

#include "absl/container/flat_hash_set.h"

namespace svcmap::proxy {

ClaimKey PortRangesClaim(const IpAddress& address, Protocol protocol) {
  return {address, protocol, 0, ClaimKey::Role::kPortRanges};
}

ClaimKey PortClaim(const IpAddress& address, const ServicePort& port) {
  if (port.is_range()) return PortRangesClaim(address, port.protocol);
  return {address, port.protocol, port.port};
}

ClaimKey NodePortClaim(Family family, Protocol protocol, uint16_t node_port) {
  return {IpAddress::Unspecified(family), protocol, node_port, ClaimKey::Role::kNodePort};
}

ClaimKey HealthCheckClaim(Family family, uint16_t health_check_node_port) {
  return {IpAddress::Unspecified(family), Protocol::kTcp, health_check_node_port,
          ClaimKey::Role::kHealthCheck};
}

std::string ClaimKey::ToString() const {
  const std::string place = role == Role::kAddress      ? address.WithPort(port)
                            : role == Role::kPortRanges ? address.ToString()
                                                        : std::to_string(port);
  return place + "/" + std::string(ProtocolName(protocol));
}

std::vector<ClaimKey> ClaimsOf(const Service& service) {
  std::vector<ClaimKey> claims;
  if (!service.proxied) return claims;
  for (const Family family : kFamilies) {
    // Skips a family in which the Service has no address (S-3).
    if (!service.cluster_ip[Index(family)]) continue;
    std::vector<IpAddress> addresses = {*service.cluster_ip[Index(family)]};
    absl::flat_hash_set<IpAddress> known = {addresses.front()};
    for (const auto* more : {&service.external_ips, &service.load_balancer_ips}) {
      for (const IpAddress& address : *more) {
        if (address.family() == family && known.insert(address).second) {
          addresses.push_back(address);
        }
      }
    }
    absl::flat_hash_set<Protocol> ranges;
    for (const ServicePort& port : service.ports) {
      // A Service claims the port ranges of a protocol once.
      if (port.is_range() && !ranges.insert(port.protocol).second) continue;
      for (const IpAddress& address : addresses) claims.push_back(PortClaim(address, port));
      if (port.node_port != 0) {
        claims.push_back(NodePortClaim(family, port.protocol, port.node_port));
      }
    }
    if (service.health_check_node_port != 0) {
      claims.push_back(HealthCheckClaim(family, service.health_check_node_port));
    }
  }
  return claims;
}

// Adds the Service whose claim `claim` overrides. An address overrides a nodePort, and a TCP
// nodePort overrides a healthCheckNodePort. The other claim takes effect again when `claim` is
// released.
void Claims::AddOverridden(const ClaimKey& claim, absl::btree_set<std::string>& to) const {
  const Family family = claim.address.family();
  const Service* owner = nullptr;
  if (claim.role == ClaimKey::Role::kAddress) {
    owner = Owner(NodePortClaim(family, claim.protocol, claim.port));
  } else if (claim.role == ClaimKey::Role::kNodePort && claim.protocol == Protocol::kTcp) {
    owner = Owner(HealthCheckClaim(family, claim.port));
  }
  if (owner != nullptr) to.insert(owner->key);
}

void Claims::CountNodePort(const ClaimKey& claim, int64_t count) {
  if (claim.role == ClaimKey::Role::kNodePort) node_ports_[Index(claim.address.family())] += count;
}

void Claims::Claimants::Insert(const Claimant& claimant) {
  const Service& service = *claimant.service;
  all_[{claimant.first_seen, service.key}] = claimant;
  if (const int64_t created = service.created_unix_nanos; created != 0) {
    dated_[{created, service.key}] = claimant;
  }
}

void Claims::Claimants::Erase(const Claimant& claimant) {
  all_.erase({claimant.first_seen, claimant.service->key});
  dated_.erase({claimant.service->created_unix_nanos, claimant.service->key});
}

const Claims::Claimant& Claims::Claimants::Owner() const {
  const Claimant& first = all_.begin()->second;
  return first.service->created_unix_nanos == 0 ? first : dated_.begin()->second;
}

// Replaces the object of a Service. The result of the conflict does not change.
void Claims::Replace(const ClaimKey& claim, const Claimant& before, const Claimant& after) {
  Claimant& owner = owners_.find(claim)->second;
  if (owner.service == before.service) owner = after;
  const auto contested = contested_.find(claim);
  if (contested == contested_.end()) return;
  contested->second.Erase(before);
  contested->second.Insert(after);
}

// Adds the Services that gain or lose the claim to `to`.
void Claims::Release(const ClaimKey& claim, const Claimant& claimant,
                     absl::btree_set<std::string>& to) {
  const auto owner = owners_.find(claim);
  const auto contested = contested_.find(claim);
  if (contested == contested_.end()) {
    owners_.erase(owner);
    CountNodePort(claim, -1);
    return;
  }
  contested->second.Erase(claimant);
  const Claimant& next = contested->second.Owner();
  if (next.service != owner->second.service) {
    to.insert({owner->second.service->key, next.service->key});
    owner->second = next;
  }
  if (contested->second.size() == 1) contested_.erase(contested);
}

// As Release.
void Claims::Acquire(const ClaimKey& claim, const Claimant& claimant,
                     absl::btree_set<std::string>& to) {
  const auto [owner, free] = owners_.try_emplace(claim, claimant);
  if (free) {
    CountNodePort(claim, 1);
    return;
  }
  const auto [contested, added] = contested_.try_emplace(claim);
  if (added) contested->second.Insert(owner->second);
  contested->second.Insert(claimant);
  const Claimant& next = contested->second.Owner();
  if (next.service == owner->second.service) return;
  to.insert({owner->second.service->key, next.service->key});
  owner->second = next;
}

Claims::Moved Claims::Update(const std::shared_ptr<const Service>& before,
                             const std::shared_ptr<const Service>& after, uint64_t first_seen) {
  const std::string& key = before ? before->key : after->key;
  const std::vector<ClaimKey> old_claims = before ? ClaimsOf(*before) : std::vector<ClaimKey>();
  const std::vector<ClaimKey> new_claims = after ? ClaimsOf(*after) : std::vector<ClaimKey>();
  const Claimant old_claimant{before, first_seen}, new_claimant{after, first_seen};
  if (before && after && old_claims == new_claims &&
      before->created_unix_nanos == after->created_unix_nanos) {
    for (const ClaimKey& claim : new_claims) Replace(claim, old_claimant, new_claimant);
    return {};
  }

  absl::btree_set<std::string> affected;
  for (const ClaimKey& claim : old_claims) {
    AddOverridden(claim, affected);
    Release(claim, old_claimant, affected);
  }
  for (const ClaimKey& claim : new_claims) {
    AddOverridden(claim, affected);
    Acquire(claim, new_claimant, affected);
  }
  affected.erase(key);
  return {.released = !old_claims.empty(),
          .acquired = !new_claims.empty(),
          .others = {affected.begin(), affected.end()}};
}

const Service* Claims::Owner(const ClaimKey& key) const {
  const auto found = owners_.find(key);
  return found == owners_.end() ? nullptr : found->second.service.get();
}

}  // namespace svcmap::proxy
