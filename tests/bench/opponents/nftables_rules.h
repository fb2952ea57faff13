// The rules of kube-proxy 1.36 in nftables mode, as text for `nft -f -`. Pure functions.
//
// Sources:
//   - A listing of a 1.36.2 node published in a walk-through, and the discussion of
//     kubernetes#136499 and #140362, for: a chain per Service port with one rule, "meta l4proto tcp
//     dnat ip addr . port to numgen random mod N map { 0 : IP . PORT, ... }"; the sets cluster-ips,
//     nodeport-ips and hairpin-connections; two rules in the chain masquerading; and the statement
//     that sets the mark without a separate chain. Versions up to 1.33 had a chain per endpoint
//     instead.
//   - pkg/proxy/nftables/proxier.go shortly after 1.36, and S-129 to S-140, for: a chain per
//     endpoint of Services with session affinity; base chains, other chains and maps; comments; and
//     the order of a transaction.
//   - Each element, chain, flush and rule is a separate command, as knftables writes them.
//   - S-337 to S-341, for the elements and chains that a change writes. Assumption: elements of
//     firewall-ips have no comment (older versions wrote one).
//
// The text does not include kube-proxy's listings with nft, which favours kube-proxy. kube-proxy
// lists the complete table before each transaction, and the elements of each map before a full
// sync.
//
// If two Services use the same nodePort, nft rejects the transaction. kube-proxy would assign the
// nodePort to the last Service.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/cluster/cluster.h"

namespace svcmap::bench {

// The node from kube-proxy's point of view, for one family.
struct NftablesNode {
  IpAddress ip;           // Node address that accepts nodePorts (S-108).
  IpPrefix cluster_cidr;  // Sources in this range are pods (S-64).
  IpPrefix service_cidr;  // The Service CIDR (S-105).
  // If true, a Service with one endpoint gets a plain "dnat to IP:PORT" (kubernetes#140723, July
  // 2026) instead of a map with one element. The kernel's cost for such a map grows with the number
  // of maps (kubernetes#139513).
  bool plain_single = false;
};

struct NftablesUpdate {
  std::string transaction;  // Commands for nft. Empty if nothing changes.
  // Chains that the transaction leaves empty and unused, and chains that the transaction fills. A
  // sync at least one second later deletes stale chains that were not filled again (S-341).
  std::vector<std::string> stale_chains, filled_chains;
};

// Returns the commands of a full sync on a node that does not have the table.
std::string NftablesFullSync(const NftablesNode& node, const std::vector<ServicePort>& ports);

// Returns the commands of a full sync on a node that has the table and no changes. The sync
// rewrites base chains and fixed rules, and flushes and refills each chain of a Service. The sync
// does not write elements, because all of them exist (S-337).
std::string NftablesResync(const NftablesNode& node, const std::vector<ServicePort>& ports);

// Returns commands that flush and refill the chains of changed Services and write changed elements.
// `ports` is the state after the changes.
NftablesUpdate NftablesChange(const NftablesNode& node, const std::vector<ServicePort>& ports,
                              const std::vector<ClusterChange>& changes);

std::string NftablesDeleteChains(Family family, const std::vector<std::string>& chains);

}  // namespace svcmap::bench
