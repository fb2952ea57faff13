// Rewrites the tables: writes the differences from the existing tables, or replaces their content.
// Base chains stay hooked, because a packet that passes while a base chain is replaced would leave
// the node without translation (docs/decisions/0011-make-before-break.md).
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "nft/model/kernel.h"
#include "nft/model/table_content.h"
#include "proxy/applied/applied.h"
#include "proxy/desired/sticky.h"
#include "proxy/diff/rewrite.h"
#include "proxy/reconcile/states.h"
#include "proxy/reconcile/sync_plan.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy {

class TableRewriter {
 public:
  TableRewriter(nft::Kernel& kernel, const RulesetOptions& ruleset, const AffinityTimers& timers,
                const Applied& applied)
      : kernel_(kernel), ruleset_(ruleset), timers_(timers), applied_(applied) {}

  // Reads the sets and chains of the tables and, in the state kUnverified, also their elements.
  // Call before a rewrite is planned. Returns an error if reading has failed and may succeed later.
  absl::Status Read(TableState state);
  // Returns null if no elements were read. If a set does not have the expected type, the result
  // contains the elements of the other sets.
  const FoundElements* found_elements() const { return found_ ? &found_->elements : nullptr; }

  // Adds the changes of the tables to a plan that contains all rows. Missing tables are created. If
  // possible, only the differences from the existing tables are written. Otherwise, the content of
  // the existing tables is replaced.
  void Write(TableState state, SyncPlan& sync_plan) const;
  // Adds the replacement of the tables' content to the plan. sync_plan.specs describes the new
  // tables.
  void Replace(TableState state, SyncPlan& sync_plan) const;

  void Forget();  // Discards the results of Read().

 private:
  // By Index(Family). Absent if the table does not exist.
  using Contents = std::array<std::optional<nft::TableContent>, 2>;
  struct Found {
    FoundElements elements;
    // Content of unmodified tables with the timeouts in `timers` and the rules in `rules`.
    std::array<nft::TableContent, 2> references;
    std::vector<uint32_t> timers;
    RulesInUse rules;
    bool comparable = true;  // True if all sets have the expected types.
    bool has_marker = true;  // True if both marker sets contain the applied marker.
  };

  absl::Status ReadElements(Family family, Found& found) const;
  absl::Status ReadEndpoints(Family family, std::optional<uint64_t> count,
                             FoundElements& elements) const;
  bool Change(SyncPlan& sync_plan) const;

  nft::Kernel& kernel_;
  const RulesetOptions& ruleset_;
  const AffinityTimers& timers_;
  const Applied& applied_;
  // Sets and chains of the tables. Absent if the tables were not read or cannot be read.
  std::optional<Contents> contents_;
  std::optional<Found> found_;
};

}  // namespace svcmap::proxy
