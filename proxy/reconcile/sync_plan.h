// A plan, and the state that becomes valid when the plan is committed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "nft/model/table.h"
#include "nft/model/transaction.h"
#include "proxy/applied/applied.h"
#include "proxy/desired/groups.h"
#include "proxy/diff/phases.h"
#include "proxy/diff/plan.h"
#include "proxy/ruleset/table.h"
#include "proxy/state/standing_findings.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

// Both tables, by Index(Family).
using Specs = std::array<std::shared_ptr<const nft::TableSpec>, 2>;

inline Specs MakeSpecs(const RulesetOptions& ruleset, const std::vector<uint32_t>& timers) {
  Specs specs;
  for (const Family family : kFamilies) {
    specs[Index(family)] = std::make_shared<nft::TableSpec>(MakeTable(family, ruleset, timers));
  }
  return specs;
}

struct SyncPlan {
  explicit SyncPlan(const SharedCounts& shared) : plan(shared) {}

  // Returns true if there is nothing to commit.
  bool empty() const { return has_marker && plan.transaction().empty(); }
  // Returns the keys in `services`. Valid until `services` changes.
  absl::flat_hash_set<std::string_view> ChangedServices() const {
    absl::flat_hash_set<std::string_view> changed;
    for (const auto& [key, rows] : services) changed.insert(key);
    return changed;
  }

  Plan plan;
  std::array<FirstPhase, 3> first;  // To commit before the plan. See Phases.
  nft::Transaction ahead;           // Elements of `first` that were, or may have been, committed.
  nft::Transaction removals;        // Elements to delete after the commit of the plan.
  bool rewrite = false;             // True if the plan contains all rows.
  bool has_marker = true;           // True if the tables contain the applied marker.
  std::vector<std::string> replaced_chains;  // See SyncResult.
  Specs specs;  // The tables after the commit, if chains or rules change. Otherwise null.
  std::vector<DirtyService> dirty;
  Applied::ServiceChanges services;
  std::vector<Number> new_numbers;
  std::vector<Number> old_numbers;
  // Empty unless the plan is a rewrite. See LocalSets.
  absl::flat_hash_set<std::string> ended_local_sets;
  std::vector<Number> gone_ports;  // Numbers of sticky ports that only the existing tables contain.
  std::optional<std::vector<Row>> node_rows;  // Absent if unchanged.
  std::vector<PlanFinding> findings;
  int64_t more_resets = 0;      // Number of Services with resets in addition to the applied rows.
  int64_t source_rows[2] = {};  // Number of source range rows in addition to the applied rows.
};

}  // namespace svcmap::proxy
