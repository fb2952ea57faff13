// What stands between a node and svcmap, for svcmapctl migrate check: what is there, what it leads
// to, and what to do. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/migration/iptables.h"
#include "api/migration/node_report.h"

namespace svcmap::api {

struct MigrationFacts {
  std::optional<NodeReport> report;  // Nothing: svcmapd could not be asked; `unread` says why.
  IptablesRead iptables;
  std::string kube_proxy;        // As FindKubeProxy has it.
  bool virtual_servers = false;  // Of ipvs.
  std::vector<std::string> interfaces;
  std::vector<std::string> unread;
};

struct Finding {
  bool attention = true;  // Else a note: worth knowing, and nothing in the way.
  std::string what;
  std::string effect;  // What will happen.
  std::string remedy;  // What to do.
};

// In a fixed order, what needs attention first.
std::vector<Finding> JudgeMigration(const MigrationFacts& facts);

}  // namespace svcmap::api
