// On which addresses of this node nodePorts are accepted (semantics.md 3.4). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/types/ip_address.h"
#include "proxy/state/objects.h"

namespace svcmap::proxy {

// What the administrator wants.
struct NodePortAddresses {
  enum class Mode : uint8_t {
    kPrimary,   // The node's first address of each family; all of a family where none is known.
    kPrefixes,  // Interface addresses inside `prefixes`; all of a family that has no prefix listed.
  };
  Mode mode = Mode::kPrimary;
  std::vector<IpPrefix> prefixes;

  // Reads "primary" or prefixes separated by commas; "0.0.0.0/0,::/0" are all addresses.
  static absl::StatusOr<NodePortAddresses> Parse(std::string_view text);
};

// The node's own address of a family (S-109): the first one that the Node object lists, unless that
// is loopback. Null while it is unknown.
const IpAddress* PrimaryAddress(const Node* node, Family family);

// Ascending, each once, never loopback (S-113). `node` may be null (not known yet).
std::vector<IpAddress> AcceptedNodePortAddresses(const NodePortAddresses& wanted, const Node* node,
                                                 const std::vector<IpAddress>& interfaces);

// Where load balancers' health checks are listened for (S-260): at the accepted addresses, or at
// the unspecified one of a family in which all are accepted. Arguments as above.
std::vector<IpAddress> HealthCheckAddresses(const NodePortAddresses& wanted, const Node* node,
                                            const std::vector<IpAddress>& interfaces);

}  // namespace svcmap::proxy
