// The rules that kube-proxy 1.36 writes in nftables mode, as text for `nft -f -`. Pure functions.
//
// What is known, and from where:
//   - A chain per Service port with one rule, "meta l4proto tcp dnat ip addr . port to numgen
//   random
//     mod N map { 0 : IP . PORT, ... }"; sets cluster-ips, nodeport-ips and hairpin-connections;
//     two rules in the chain masquerading; the mark set in place, without a chain for it: a listing
//     of a 1.36.2 node published in a walk-through, and the discussion of kubernetes#136499 and
//     #140362. Up to 1.33, and still early in 2025, there was a chain per endpoint instead.
//   - Endpoints keep a chain each where the Service has session affinity; base chains, the other
//     chains and maps, comments, and the order of a transaction: pkg/proxy/nftables/proxier.go as
//     it stood shortly after 1.36, and S-129 to S-140.
//   - Each element, chain, flush and rule is a command of its own, in full: knftables' way to
//   write.
//   - Which elements and chains a change touches: S-337 to S-341.
// What is assumed: that elements of firewall-ips carry no comment (older versions wrote one).
//
// What kube-proxy does besides, and this leaves out, which favours kube-proxy: before each
// transaction it lists the whole table with nft, and before a full one the elements of each map.
//
// Where two Services claim one nodePort, nft refuses the transaction; kube-proxy would give it to
// the one that comes last.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/cluster/cluster.h"

namespace svcmap::bench {

// What kube-proxy knows of its node, in one family.
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
  // Which chains the transaction leaves empty and unused, and which it fills. Those that were not
  // filled again meanwhile are deleted by a later sync, a second or more afterwards (S-341).
  std::vector<std::string> stale_chains, filled_chains;
};

// Everything, where there is no table yet.
std::string NftablesFullSync(const NftablesNode& node, const std::vector<ServicePort>& ports);

// Everything once more, with the table in place and nothing changed: base chains and fixed rules
// anew, and each chain of a Service flushed and refilled. Elements stay, as all are there (S-337).
std::string NftablesResync(const NftablesNode& node, const std::vector<ServicePort>& ports);

// The chains of the Services that changed, flushed and refilled, and the elements that differ.
// `ports` are those after the changes.
NftablesUpdate NftablesChange(const NftablesNode& node, const std::vector<ServicePort>& ports,
                              const std::vector<ClusterChange>& changes);

std::string NftablesDeleteChains(Family family, const std::vector<std::string>& chains);

}  // namespace svcmap::bench
