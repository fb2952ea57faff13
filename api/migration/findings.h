// Evaluates facts about a node for `svcmapctl migrate check`. Each finding has a description, its
// effect and a remedy. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/migration/iptables.h"
#include "api/migration/node_report.h"
#include "nft/types/node_addresses.h"

namespace svcmap::api {

struct MigrationFacts {
  // Absent if `svcmapd --preflight` failed. After a failure, `unread` contains the reason.
  std::optional<NodeReport> report;
  IptablesRead iptables;
  std::string kube_proxy;               // Result of FindKubeProxy.
  bool virtual_servers = false;         // True if IPVS virtual servers exist.
  std::vector<std::string> interfaces;  // Names of all interfaces.
  std::vector<InterfaceAddress> addresses;
  // Findings of a running agent about the node and ServiceCIDRs. Empty if no agent runs.
  std::vector<std::string> agent_findings;
  std::vector<std::string> unread;  // Facts that could not be read, with reasons.
};

struct MigrationFinding {
  bool attention = true;  // False for a note, which requires no action before migration.
  std::string what;       // Description.
  std::string effect;     // Consequence if the user takes no action.
  std::string remedy;     // Recommended action.
};

// Returns the findings in a fixed order. Findings that need attention come first.
std::vector<MigrationFinding> JudgeMigration(const MigrationFacts& facts);

}  // namespace svcmap::api
