// Who may have which address and port. Two Services can claim the same one; the oldest wins, then
// the first by name, whatever the order in which they came (S-16). The others stay without it and
// are told so.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "proxy/state/objects.h"

namespace svcmap::proxy {

// An (address, protocol, port), or a (protocol, port) of the node in one family.
struct ClaimKey {
  enum class Role : uint8_t { kAddress, kNodePort, kHealthCheck };

  IpAddress address;  // Unspecified for ports of the node; its family still counts.
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;
  Role role = Role::kAddress;

  friend bool operator==(const ClaimKey&, const ClaimKey&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const ClaimKey& key) {
    return H::combine(std::move(state), key.address, key.protocol, key.port, key.role);
  }
  std::string ToString() const;  // "10.96.0.1:80/TCP"; "30080/TCP" for a port of the node
};

ClaimKey NodePortClaim(Family family, Protocol protocol, uint16_t node_port);
ClaimKey HealthCheckClaim(Family family, uint16_t health_check_node_port);

// What a Service wants to be reached at, each once; empty if it is not proxied.
std::vector<ClaimKey> ClaimsOf(const Service& service);

class Claims {
 public:
  struct Moved {
    bool released = false;            // The Service may have given up something,
    bool acquired = false;            // or may want something that it did not want before.
    std::vector<std::string> others;  // Services that won or lost an address by it, ascending.
  };

  // Moves the claims of one Service from `before` to `after` (either may be null).
  Moved Update(const Service* before, const std::shared_ptr<const Service>& after);

  // The Service that holds it; null if nobody claims it.
  const Service* Owner(const ClaimKey& key) const;

 private:
  void ReplaceHolder(const ClaimKey& claim, const std::shared_ptr<const Service>& after);
  void AddNodePortOwner(const ClaimKey& claim, absl::btree_set<std::string>& to) const;

  // Almost every key has one claimant; only contested ones need a list.
  absl::flat_hash_map<ClaimKey, std::shared_ptr<const Service>> owners_;
  absl::flat_hash_map<ClaimKey, std::vector<std::shared_ptr<const Service>>> losers_;
};

}  // namespace svcmap::proxy
