// Plans the removal of kube-proxy's iptables chains (S-216..S-233). Pure functions, which process
// the output of iptables-save and produce input for iptables-restore.
//
// Removes only chains with one of kube-proxy's names, and rules that jump from built-in chains to
// the removed chains. Does not remove chains of other programs, including kubelet's KUBE-FIREWALL,
// KUBE-KUBELET-CANARY and KUBE-MARK-DROP.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/migration/iptables.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {

// Name of kube-proxy's tables in nftables mode, which exist in the families ip and ip6 (S-137).
inline constexpr char kKubeProxyTable[] = "kube-proxy";

bool IsKubeProxyChain(std::string_view name);

struct RemovalOfTable {
  std::string table;
  std::vector<std::string> jumps;   // Complete rules: "-A PREROUTING ... -j KUBE-SERVICES".
  std::vector<std::string> chains;  // Chains in the order of iptables-save.
};

struct Removal {
  std::vector<RemovalOfTable> tables;  // Tables with chains or jumps to remove.
  // Contains one phrase for each of kube-proxy's chains that must be kept: "CHAIN in table TABLE,
  // because REASON".
  std::vector<std::string> kept;

  bool empty() const { return tables.empty(); }
  // Returns input for iptables-restore --noflush, which applies each table atomically.
  std::string RestoreText() const;
};

// Describes how a built-in chain of the table filter drops packets: "drops by default" or "may drop
// packets (-A MINE -j DROP)". Also searches the chains that are reachable from the built-in chain.
// Returns "" if no rule drops packets. Ignores kube-proxy's chains and kubelet's KUBE-FIREWALL.
std::string DropsText(const IptablesTable& table, std::string_view chain);

// Plans the removal of kube-proxy's chains. Keeps chains to which a chain of another program jumps.
// Keeps KUBE-FORWARD if FORWARD drops packets, because KUBE-FORWARD accepts packets with the
// masquerade mark, including packets marked by svcmap (S-146). Keeps KUBE-NODEPORTS if INPUT drops
// packets, because KUBE-NODEPORTS accepts health checks of load balancers (S-147). Every drop
// rule counts, because the text of a rule does not show whether the rule matches Service traffic.
Removal PlanRemoval(const IptablesSave& save);

// Summarizes chain names: "KUBE-SERVICES, KUBE-POSTROUTING, 12 KUBE-SVC-*, 40 KUBE-SEP-*".
std::string ChainsText(const std::vector<std::string>& chains);

// Service addresses and nodePorts in kube-proxy's rules.
struct ServedPlaces {
  std::set<std::string> addresses;   // "10.96.0.10/32"
  std::set<std::string> node_ports;  // "30080"
};
ServedPlaces PlacesServed(const IptablesSave& save);

// Returns the clusterIPs in kube-proxy's rules, with duplicates.
std::vector<IpAddress> ClusterIps(const IptablesSave& save);

// Returns the rules of other programs that translate the destination of packets to an address in
// `places`. Also returns rules for a nodePort in `places` if these rules match all addresses.
std::vector<std::string> ForeignTranslations(const IptablesSave& save, const ServedPlaces& places);

}  // namespace svcmap::api
