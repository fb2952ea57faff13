// The rules of kube-proxy 1.36 in nftables mode, as text for `nft -f -`. All functions are pure.
//
// The first source is a published listing of a 1.36.2 node, with the discussion of
// kubernetes#136499 and #140362. This source shows the following parts:
//
// - A chain per Service port with one rule, "meta l4proto tcp dnat ip addr . port to numgen random
// mod N map { 0 : 10.0.0.1 . 80, ... }". kube-proxy versions up to 1.33 had a chain per endpoint
// instead.
//
// - The sets cluster-ips, nodeport-ips and hairpin-connections.
//
// - Two rules in the chain masquerading, and the statement that sets the mark without a separate
// chain.
//
// The second source is pkg/proxy/nftables/proxier.go shortly after 1.36, with S-129 to S-140. This
// source shows the following parts:
//
// - A chain per endpoint for Services with session affinity.
//
// - Base chains, other chains and maps, comments, and the order of a transaction.
//
// Each element, chain, flush and rule is a separate command, as knftables writes them. S-337 to
// S-341 describe the elements and chains that a change writes. The code assumes that elements of
// firewall-ips have no comment. Older kube-proxy versions wrote a comment.
//
// The text does not include kube-proxy's listings with nft, which favours kube-proxy. kube-proxy
// lists the complete table before each transaction, and the elements of each map before a full
// sync.
//
// The third source, for NftablesLayout::kSharedDispatch, is a description of the proposed design
// with a listing for 45,000 Services and examples of updates, in the repository
// adrianmoisey/kubernetes-nftables-issue. The number of an endpoint in the map is its position in
// ServicePort::endpoints. In the proposal, an update does not move unchanged endpoints, with one
// exception: if an endpoint is removed, the last endpoint takes its number.
//
// If two Services use the same nodePort, nft rejects the transaction. kube-proxy would assign the
// nodePort to the last Service.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/cluster/cluster.h"

namespace svcmap::bench {

enum class NftablesLayout {
  // kube-proxy 1.36: a chain and an anonymous map per Service.
  kMapPerService,
  // kube-proxy 1.37 (kubernetes#140723): a Service with one endpoint and without session affinity
  // has a plain "dnat to IP:PORT" instead of a map with one element. The kernel's cost for a map
  // with one element grows with the number of maps (kubernetes#139513).
  kPlainSingle,
  // Proposed for a later version (kubernetes#140362): the cluster IP of a Service without session
  // affinity leads to the chain dispatch-N, which all Services with N endpoints share. The chain
  // stores a random number below N in the mark of the connection, and looks up the Service and this
  // number in the map endpoints. The proposal contains only cluster IPs without session affinity,
  // so all other rules are those of kPlainSingle.
  kSharedDispatch,
};

// The node from kube-proxy's point of view, for one address family.
struct NftablesNode {
  IpAddress ip;           // Node address that accepts nodePorts (S-108).
  IpPrefix cluster_cidr;  // Source addresses in this range belong to pods (S-64).
  IpPrefix service_cidr;  // The Service CIDR (S-105).
  NftablesLayout layout = NftablesLayout::kMapPerService;
};

struct NftablesUpdate {
  std::string transaction;  // Commands for nft. Empty if nothing changes.
  // The transaction empties `stale_chains`, which are no longer used, and fills `filled_chains`. A
  // sync at least one second later deletes stale chains that were not filled again (S-341).
  std::vector<std::string> stale_chains, filled_chains;
};

// Returns the commands of a full sync on a node that does not have the table.
std::string NftablesFullSync(const NftablesNode& node, const std::vector<ServicePort>& ports);

// Returns the commands of a full sync on a node whose table is up to date. The sync rewrites base
// chains and fixed rules, and flushes and refills each chain of a Service. The sync does not write
// elements, because all elements exist (S-337).
std::string NftablesResync(const NftablesNode& node, const std::vector<ServicePort>& ports);

// Returns commands that flush and refill the chains of changed Services and write changed elements.
// `ports` contains all Service ports after the changes.
NftablesUpdate NftablesChange(const NftablesNode& node, const std::vector<ServicePort>& ports,
                              const std::vector<ClusterChange>& changes);

std::string NftablesDeleteChains(Family family, const std::vector<std::string>& chains);

}  // namespace svcmap::bench
