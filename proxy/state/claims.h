// Resolves conflicts for addresses and ports. If several Services claim the same address and port,
// the oldest Service gets the claim. Among Services of the same age, the first by name gets the
// claim. The order of arrival does not matter (S-16). All other Services with the same claim are
// reported and not programmed at this address.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

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

  // Replaces the claims of one Service. `before` and `after` may be null.
  Moved Update(const Service* before, const std::shared_ptr<const Service>& after);

  // Returns the Service that owns the claim, or null if the claim has no owner.
  const Service* Owner(const ClaimKey& key) const;

 private:
  using Holder = std::shared_ptr<const Service>;
  // Orders Services by age, then by name.
  struct OlderFirst {
    using is_transparent = void;
    static const Service& Of(const Service& service) { return service; }
    static const Service& Of(const Holder& holder) { return *holder; }
    bool operator()(const auto& a, const auto& b) const {
      return std::tie(Of(a).created_unix_nanos, Of(a).key) <
             std::tie(Of(b).created_unix_nanos, Of(b).key);
    }
  };

  void ReplaceHolder(const ClaimKey& claim, const Holder& after);
  void AddNodePortOwner(const ClaimKey& claim, absl::btree_set<std::string>& to) const;

  // Nearly every key has a single claimant, so lists exist only for contested keys.
  absl::flat_hash_map<ClaimKey, Holder> owners_;
  absl::flat_hash_map<ClaimKey, absl::btree_set<Holder, OlderFirst>> losers_;
};

}  // namespace svcmap::proxy
