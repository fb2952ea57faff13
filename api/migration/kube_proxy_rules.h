// Plans the removal of kube-proxy's iptables chains (S-216..S-233). Pure functions: the input is
// the output of iptables-save, the result is input for iptables-restore.
//
// Removes only chains with one of kube-proxy's names, and rules of built-in chains that jump to
// them. Does not remove chains of other programs, including kubelet's KUBE-FIREWALL,
// KUBE-KUBELET-CANARY and KUBE-MARK-DROP.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/migration/iptables_save.h"

namespace svcmap::api {

// kube-proxy's table in nftables mode, in the families ip and ip6 (S-137).
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

// Describes how a built-in chain of table filter, or a chain reachable from it, drops packets:
// "drops by default" or "may drop packets (-A MINE -j DROP)". Returns "" if no rule drops packets.
// Ignores kube-proxy's chains and kubelet's KUBE-FIREWALL.
std::string DropsText(const IptablesTable& table, std::string_view chain);

// Plans the removal of kube-proxy's chains. The following chains are kept:
// - Chains to which a chain of another program jumps.
// - KUBE-FORWARD, if FORWARD drops packets. KUBE-FORWARD accepts packets with the masquerade mark,
//   including packets marked by svcmap (S-146). Whether a drop rule matches Service traffic cannot
//   be determined from the rule.
// - KUBE-NODEPORTS, if INPUT drops packets, because it accepts health checks of load balancers
//   (S-147).
Removal PlanRemoval(const IptablesSave& save);

// Summarizes chain names: "KUBE-SERVICES, KUBE-POSTROUTING, 12 KUBE-SVC-*, 40 KUBE-SEP-*".
std::string ChainsText(const std::vector<std::string>& chains);

// Service addresses and nodePorts in kube-proxy's rules, without duplicates.
struct ServedPlaces {
  std::vector<std::string> addresses;   // "10.96.0.10/32"
  std::vector<std::string> node_ports;  // "30080"
};
ServedPlaces PlacesServed(const IptablesSave& save);

// Returns rules of other programs that translate one of the addresses in `places`, or one of its
// nodePorts at every address.
std::vector<std::string> ForeignTranslations(const IptablesSave& save, const ServedPlaces& places);

}  // namespace svcmap::api
