// Resolves conflicts for addresses and ports (S-16). If several Services claim the same address and
// port, one of them gets the claim. The other Services are reported and not programmed at this
// address.
//
// If all of these Services have a creationTimestamp, the oldest Service gets the claim. Otherwise,
// the Service that this agent stored first (ServiceEntry::first_seen) decides. If this first
// Service has no creationTimestamp, it gets the claim. If it has a creationTimestamp, the oldest
// Service with a creationTimestamp gets the claim. So the result depends only on the claimants, and
// a new Service without a creationTimestamp never takes a claim. If timestamps or revisions are
// equal, the names decide.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "proxy/state/objects.h"

namespace svcmap::proxy {

// Key of a claim: an address, protocol and port, the port ranges of an address and protocol, or a
// protocol and port of the node in one family.
struct ClaimKey {
  enum class Role : uint8_t { kAddress, kPortRanges, kNodePort, kHealthCheck };

  // Address of the claim. For a node port, the unspecified address of the claim's family.
  IpAddress address;
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;
  Role role = Role::kAddress;

  friend bool operator==(const ClaimKey&, const ClaimKey&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const ClaimKey& key) {
    return H::combine(std::move(state), key.address, key.protocol, key.port, key.role);
  }
  // "10.96.0.1:80/TCP", "10.96.0.1/TCP" for port ranges, or "30080/TCP" for a port of the node.
  std::string ToString() const;
};

// The claim of a Service port at one of the Service's addresses.
ClaimKey PortClaim(const IpAddress& address, const ServicePort& port);
ClaimKey PortRangesClaim(const IpAddress& address, Protocol protocol);
ClaimKey NodePortClaim(Family family, Protocol protocol, uint16_t node_port);
ClaimKey HealthCheckClaim(Family family, uint16_t health_check_node_port);

// Returns all claims of a Service, without duplicates. The result is empty if the Service is not
// proxied.
std::vector<ClaimKey> ClaimsOf(const Service& service);

class Claims {
 public:
  struct Moved {
    bool released = false;  // True if the Service may have released a claim.
    bool acquired = false;  // True if the Service may have a new claim.
    // Other Services that gained or lost an address because of the update, ascending.
    std::vector<std::string> others;
  };

  // Replaces the claims of one Service. `before` and `after` may be null. `first_seen` is the value
  // in the Service's ServiceEntry, which is the same for both versions.
  Moved Update(const std::shared_ptr<const Service>& before,
               const std::shared_ptr<const Service>& after, uint64_t first_seen);

  // Returns the Service that owns the claim, or null if the claim has no owner.
  const Service* Owner(const ClaimKey& key) const;
  // Returns the number of different nodePorts in the family, counted once per protocol.
  int64_t node_ports(Family family) const { return node_ports_[Index(family)]; }

 private:
  struct Claimant {
    std::shared_ptr<const Service> service;
    uint64_t first_seen = 0;
  };
  // The Services that claim one key.
  class Claimants {
   public:
    void Insert(const Claimant& claimant);
    void Erase(const Claimant& claimant);
    const Claimant& Owner() const;
    size_t size() const { return all_.size(); }

   private:
    // By first_seen and name, and by creationTimestamp and name if there is a timestamp.
    absl::btree_map<std::pair<uint64_t, std::string>, Claimant> all_;
    absl::btree_map<std::pair<int64_t, std::string>, Claimant> dated_;
  };

  void Release(const ClaimKey& claim, const Claimant& claimant, absl::btree_set<std::string>& to);
  void Acquire(const ClaimKey& claim, const Claimant& claimant, absl::btree_set<std::string>& to);
  void Replace(const ClaimKey& claim, const Claimant& before, const Claimant& after);
  void AddOverridden(const ClaimKey& claim, absl::btree_set<std::string>& to) const;
  void CountNodePort(const ClaimKey& claim, int64_t count);

  // Nearly every key has a single claimant, so `contested_` contains only the other keys.
  absl::flat_hash_map<ClaimKey, Claimant> owners_;
  absl::flat_hash_map<ClaimKey, Claimants> contested_;
  int64_t node_ports_[2] = {};  // By Index(Family).
};

}  // namespace svcmap::proxy
