// The rules of kube-proxy 1.36 in nftables mode, as text for `nft -f -`. Pure functions.
//
// Sources:
//   - A chain per Service port with one rule, "meta l4proto tcp dnat ip addr . port to numgen
//   random
//     mod N map { 0 : IP . PORT, ... }"; sets cluster-ips, nodeport-ips and hairpin-connections;
//     two rules in the chain masquerading; the mark set in place, without a chain for it: a listing
//     of a 1.36.2 node published in a walk-through, and the discussion of kubernetes#136499 and
//     #140362. Up to 1.33, and still early in 2025, there was a chain per endpoint instead.
//   - Endpoints of Services with session affinity have a chain each. Base chains, other chains and
//   maps,
//     comments, and the order of a transaction: pkg/proxy/nftables/proxier.go shortly after 1.36,
//     and S-129 to S-140.
//   - Each element, chain, flush and rule is a separate command, as knftables writes them.
//   - Elements and chains that a change writes: S-337 to S-341.
// Assumption: elements of firewall-ips have no comment (older versions wrote one).
//
// Omitted, in favour of kube-proxy: it lists the complete table with nft before each transaction,
// and the elements of each map before a full sync.
//
// If two Services claim the same nodePort, nft rejects the transaction. kube-proxy would assign it
// to the last Service.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/cluster/cluster.h"

namespace svcmap::bench {

// kube-proxy's view of its node, for one family.
struct NftablesNode {
  IpAddress ip;           // Accepts nodePorts (S-108).
  IpPrefix cluster_cidr;  // Sources in it are pods (S-64).
  IpPrefix service_cidr;  // S-105.
  // A Service with one endpoint gets a plain "dnat to IP:PORT" (kubernetes#140723, of July 2026)
  // instead of a map of one element, whose cost in the kernel grows with all others
  // (kubernetes#139513).
  bool plain_single = false;
};

struct NftablesUpdate {
  std::string transaction;  // Empty if nothing changes.
  // Chains that the transaction leaves empty and unused, and chains that it fills. A sync at least
  // one second later deletes stale chains that were not filled again (S-341).
  std::vector<std::string> stale_chains, filled_chains;
};

// A full sync without an existing table.
std::string NftablesFullSync(const NftablesNode& node, const std::vector<ServicePort>& ports);

// A full sync with an existing table and no change: rewrites base chains and fixed rules, and
// flushes and refills each chain of a Service. Elements are kept, because all exist (S-337).
std::string NftablesResync(const NftablesNode& node, const std::vector<ServicePort>& ports);

// Flushes and refills the chains of changed Services, and writes changed elements. `ports` is the
// state after the changes.
NftablesUpdate NftablesChange(const NftablesNode& node, const std::vector<ServicePort>& ports,
                              const std::vector<ClusterChange>& changes);

std::string NftablesDeleteChains(Family family, const std::vector<std::string>& chains);

}  // namespace svcmap::bench
