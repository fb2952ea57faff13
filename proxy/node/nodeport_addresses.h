// Selects the addresses of this node that accept nodePort traffic. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/types/ip_address.h"
#include "proxy/state/objects.h"

namespace svcmap::proxy {

// Parsed value of the setting nodePortAddresses.
struct NodePortAddresses {
  enum class Mode : uint8_t {
    // NodePort traffic is accepted at the node's first address of each family, and at all addresses
    // of a family without a known node address.
    kPrimary,
    // NodePort traffic is accepted at interface addresses within `prefixes`, and at all addresses
    // of a family without a listed prefix.
    kPrefixes,
  };
  Mode mode = Mode::kPrimary;
  std::vector<IpPrefix> prefixes;

  // Parses "primary" or a comma-separated list of prefixes. "0.0.0.0/0,::/0" selects all addresses.
  static absl::StatusOr<NodePortAddresses> Parse(std::string_view text);
};

// Returns the node's own address of a family (S-109): the first address in the Node object, unless
// it is a loopback address. Returns null if the address is unknown.
const IpAddress* PrimaryAddress(const Node* node, Family family);

// Returns addresses in ascending order, without duplicates and without loopback addresses (S-113).
// `node` is null if this node is unknown.
std::vector<IpAddress> AcceptedNodePortAddresses(const NodePortAddresses& wanted, const Node* node,
                                                 const std::vector<IpAddress>& interfaces);

// Returns the addresses for load balancer health checks (S-260): the accepted addresses, or the
// unspecified address of a family if all addresses are accepted. The arguments are the same as for
// AcceptedNodePortAddresses.
std::vector<IpAddress> HealthCheckAddresses(const NodePortAddresses& wanted, const Node* node,
                                            const std::vector<IpAddress>& interfaces);

}  // namespace svcmap::proxy
