// Rewrites the tables: creates missing tables, and changes only what differs in existing tables.
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

  // Reads the tables. Call before a rewrite is planned. Returns an error if reading has failed and
  // may succeed later.
  absl::Status Read();
  // Returns null if no elements were read.
  const FoundElements* found_elements() const { return found_ ? &found_->elements : nullptr; }

  // Replaces the rows of `sync_plan`, which contains all rows, with the differences from the tables
  // that were read. Returns an error if the tables cannot be compared with unmodified tables.
  absl::Status Write(SyncPlan& sync_plan) const;
  // Adds the deletion and creation of both tables to a plan that contains all rows. This is the
  // last resort, because packets may be lost and affinity records are deleted.
  void Replace(SyncPlan& sync_plan) const;

  void Forget() { found_.reset(); }  // Discards the results of Read().

 private:
  struct Found {
    // By Index(Family). Absent if the table does not exist.
    std::array<std::optional<nft::TableContent>, 2> contents;
    FoundElements elements;
    // Content of unmodified tables with the timeouts in `timers` and the rules in `rules`.
    std::array<nft::TableContent, 2> references;
    std::vector<uint32_t> timers;
    RulesInUse rules;
    bool has_marker = true;  // True if both marker sets contain the applied marker.
  };

  absl::Status ReadElements(Family family, Found& found) const;
  absl::Status ReadEndpoints(Family family, std::optional<uint64_t> count,
                             FoundElements& elements) const;

  nft::Kernel& kernel_;
  const RulesetOptions& ruleset_;
  const AffinityTimers& timers_;
  const Applied& applied_;
  std::optional<Found> found_;
};

}  // namespace svcmap::proxy
