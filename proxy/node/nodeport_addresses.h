// Selects the addresses of this node that accept nodePort traffic, and the address that answers
// echo requests to Service addresses. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/types/ip_address.h"
#include "proxy/state/objects.h"

namespace svcmap::proxy {

// Parsed value of the setting nodePortAddresses. If `primary` is true, NodePort traffic is accepted
// at the node's first address of each family, provided that an interface has this address. NodePort
// traffic is also accepted at interface addresses within `prefixes`. If the setting contains no
// address of a family, NodePort traffic is accepted at all interface addresses of this family
// (S-110).
struct NodePortAddresses {
  bool primary = true;
  std::vector<IpPrefix> prefixes;

  // Parses a comma-separated list of CIDRs and keywords. "primary" sets `primary`, "localhost" adds
  // 127.0.0.0/8 and ::1/128, and "all" adds 0.0.0.0/0 and ::/0. An empty text means "primary".
  static absl::StatusOr<NodePortAddresses> Parse(std::string_view text);
};

// Returns true if `item` is a CIDR or a keyword of nodePortAddresses.
bool IsNodePortAddress(std::string_view item);

// Describes the allowed items in error messages.
inline constexpr char kNodePortAddressDetail[] =
    "must be \"primary\", \"localhost\", \"all\" or a CIDR, such as \"192.0.2.0/24\"";

// Returns the loopback address that can accept connections to nodePorts: 127.0.0.1 or ::1.
IpAddress LocalhostAddress(Family family);

// Returns the addresses of 127.0.0.1 and ::1 that the setting contains explicitly: as "localhost"
// or in a CIDR that has only loopback addresses (S-113).
std::vector<IpAddress> ListedLoopbackAddresses(const NodePortAddresses& wanted);

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

// Returns the node's own address if `interfaces` contains this address, otherwise the lowest
// address in `interfaces` that is not a loopback or link-local address. The kernel delivers packets
// to both addresses locally, on any interface. Returns nullopt if there is no such address. `node`
// is null if this node is unknown.
std::optional<IpAddress> PingTarget(const Node* node, const std::vector<IpAddress>& interfaces,
                                    Family family);

}  // namespace svcmap::proxy
