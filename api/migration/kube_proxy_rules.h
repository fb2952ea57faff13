// kube-proxy's chains among those of iptables (S-216..S-233), and how they are taken away. Pure
// functions: what iptables-save printed in, what iptables-restore is to read out.
//
// Only what has one of kube-proxy's names is ever removed, and the rules of built-in chains that
// jump there. Kubelet's KUBE-FIREWALL, KUBE-KUBELET-CANARY and KUBE-MARK-DROP stay, and everybody
// else's chains.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/migration/iptables_save.h"

namespace svcmap::api {

// In mode nftables all that kube-proxy has is a table of this name in each family (S-137).
inline constexpr char kKubeProxyTable[] = "kube-proxy";

bool IsKubeProxyChain(std::string_view name);

struct RemovalOfTable {
  std::string table;
  std::vector<std::string> jumps;   // As they stand: "-A PREROUTING ... -j KUBE-SERVICES".
  std::vector<std::string> chains;  // In the order of iptables-save.
};

struct Removal {
  std::vector<RemovalOfTable> tables;  // Those in which something is to be removed.
  // Why some of kube-proxy's chains have to stay, a phrase each.
  std::vector<std::string> kept;

  bool empty() const { return tables.empty(); }
  // For iptables-restore --noflush: each table is one change.
  std::string RestoreText() const;
};

// How packets may get lost in this built-in chain of the table filter and in what it jumps to: a
// phrase, "drops by default" or "may drop packets (-A MINE -j DROP)"; empty if nothing there drops.
// kube-proxy's own chains and kubelet's KUBE-FIREWALL do not count.
std::string DropsText(const IptablesTable& table, std::string_view chain);

// Stays: what a chain of somebody else jumps to; KUBE-FORWARD where anything in FORWARD drops, as
// its rules let marked packets through (S-146), ours as well, and nobody can tell here which
// packets the rule that drops would fit; and likewise KUBE-NODEPORTS of INPUT with its ports of
// health checks (S-147).
Removal PlanRemoval(const IptablesSave& save);

// "KUBE-SERVICES, KUBE-POSTROUTING, 12 KUBE-SVC-*, 40 KUBE-SEP-*"
std::string ChainsText(const std::vector<std::string>& chains);

// Where Services are to be reached, as kube-proxy's rules say.
struct ServedPlaces {
  std::vector<std::string> addresses;   // "10.96.0.10/32", each once.
  std::vector<std::string> node_ports;  // "30080", each once.
};
ServedPlaces PlacesServed(const IptablesSave& save);

// Rules of others that translate one of those places, or every address at one of those nodePorts.
std::vector<std::string> ForeignTranslations(const IptablesSave& save, const ServedPlaces& places);

}  // namespace svcmap::api
