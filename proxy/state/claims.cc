#include "proxy/state/claims.h"

#include "absl/container/flat_hash_set.h"

namespace svcmap::proxy {
namespace {

IpAddress AnyAddress(Family family) {
  constexpr uint8_t zero[16] = {};
  return *IpAddress::FromBytes({zero, family == Family::kIpv4 ? size_t{4} : size_t{16}});
}

}  // namespace

ClaimKey PortRangesClaim(const IpAddress& address, Protocol protocol) {
  return {address, protocol, 0, ClaimKey::Role::kPortRanges};
}

ClaimKey PortClaim(const IpAddress& address, const ServicePort& port) {
  if (port.is_range()) return PortRangesClaim(address, port.protocol);
  return {address, port.protocol, port.port};
}

ClaimKey NodePortClaim(Family family, Protocol protocol, uint16_t node_port) {
  return {AnyAddress(family), protocol, node_port, ClaimKey::Role::kNodePort};
}

ClaimKey HealthCheckClaim(Family family, uint16_t health_check_node_port) {
  return {AnyAddress(family), Protocol::kTcp, health_check_node_port, ClaimKey::Role::kHealthCheck};
}

std::string ClaimKey::ToString() const {
  const std::string end = std::to_string(port) + "/" + std::string(ProtocolName(protocol));
  if (role == Role::kPortRanges) {
    return address.ToString() + "/" + std::string(ProtocolName(protocol));
  }
  if (role != Role::kAddress) return end;
  return (address.family() == Family::kIpv4 ? address.ToString() : "[" + address.ToString() + "]") +
         ":" + end;
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

// Adds the Service whose nodePort `claim` overrides. The nodePort takes effect again when `claim`
// is released.
void Claims::AddNodePortOwner(const ClaimKey& claim, absl::btree_set<std::string>& to) const {
  if (claim.role != ClaimKey::Role::kAddress) return;
  const Service* owner = Owner(NodePortClaim(claim.address.family(), claim.protocol, claim.port));
  if (owner != nullptr) to.insert(owner->key);
}

// Replaces the Service object. The Service's role (owner or waiting) does not change.
void Claims::ReplaceHolder(const ClaimKey& claim, const Holder& after) {
  auto& owner = owners_.find(claim)->second;
  if (owner->key == after->key) {
    owner = after;
    return;
  }
  auto& losers = losers_.find(claim)->second;
  losers.erase(losers.find(after));
  losers.insert(after);
}

Claims::Moved Claims::Update(const Service* before, const std::shared_ptr<const Service>& after) {
  const std::string& key = before != nullptr ? before->key : after->key;
  const std::vector<ClaimKey> old_claims = before ? ClaimsOf(*before) : std::vector<ClaimKey>();
  const std::vector<ClaimKey> new_claims = after ? ClaimsOf(*after) : std::vector<ClaimKey>();
  if (before && after && old_claims == new_claims &&
      before->created_unix_nanos == after->created_unix_nanos) {
    for (const ClaimKey& claim : new_claims) ReplaceHolder(claim, after);
    return {};
  }

  absl::btree_set<std::string> affected;
  for (const ClaimKey& claim : old_claims) {
    AddNodePortOwner(claim, affected);
    const auto contested = losers_.find(claim);
    const auto owner = owners_.find(claim);
    if (owner->second->key != key) {  // The Service was waiting for the claim.
      contested->second.erase(contested->second.find(*before));
      if (contested->second.empty()) losers_.erase(contested);
      continue;
    }
    if (contested == losers_.end()) {
      owners_.erase(owner);
      continue;
    }
    const auto next = contested->second.begin();
    affected.insert((*next)->key);
    owner->second = *next;
    contested->second.erase(next);
    if (contested->second.empty()) losers_.erase(contested);
  }
  for (const ClaimKey& claim : new_claims) {
    AddNodePortOwner(claim, affected);
    const auto [owner, free] = owners_.try_emplace(claim, after);
    if (free) continue;
    if (OlderFirst()(after, owner->second)) {
      affected.insert(owner->second->key);
      losers_[claim].insert(std::move(owner->second));
      owner->second = after;
    } else {
      losers_[claim].insert(after);
    }
  }
  affected.erase(key);
  return {.released = !old_claims.empty(),
          .acquired = !new_claims.empty(),
          .others = {affected.begin(), affected.end()}};
}

const Service* Claims::Owner(const ClaimKey& key) const {
  const auto found = owners_.find(key);
  return found == owners_.end() ? nullptr : found->second.get();
}

}  // namespace svcmap::proxy
