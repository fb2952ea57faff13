// Computes plans: the difference between the desired rows of changed Services and their applied
// rows, or a rewrite of the tables, which creates missing tables, and changes only what differs in
// existing tables (docs/decisions/0011-make-before-break.md).
//
// Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/model/kernel.h"
#include "nft/model/table.h"
#include "nft/model/table_content.h"
#include "nft/model/transaction.h"
#include "proxy/applied/applied.h"
#include "proxy/desired/groups.h"
#include "proxy/desired/service.h"
#include "proxy/desired/sticky.h"
#include "proxy/diff/leftovers.h"
#include "proxy/diff/phases.h"
#include "proxy/diff/plan.h"
#include "proxy/diff/rewrite.h"
#include "proxy/reconcile/node_follower.h"
#include "proxy/ruleset/table.h"
#include "proxy/state/standing_findings.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

// The numbers in map elements: endpoint groups, affinity ports and affinity timeouts. Copyable, so
// that dumps and dry runs can compute rows without allocating numbers.
struct Numbering {
  Numbers numbers;
  AffinityTimers timers;
  std::shared_ptr<const FoundPorts> found;  // Null after all Services were written. See FoundPorts.

  // The result refers to the arguments and to this object.
  DesiredContext Context(const Store& store, const NodeFacts& node, const Applied& applied) {
    return {store.claims(), node, numbers, timers, applied.timer_uses(), found.get()};
  }
};

// The content of the tables in the kernel.
struct FoundTables {
  // By Index(Family). Absent if the table does not exist.
  std::array<std::optional<nft::TableContent>, 2> contents;
  FoundElements elements;
  // Content of unmodified tables with the timeouts in `timers` and the rules in `rules`.
  std::array<nft::TableContent, 2> references;
  std::vector<uint32_t> timers;
  RulesInUse rules;
  bool has_marker = true;  // True if both marker sets contain the applied marker.
};

// Both tables, by Index(Family).
using Specs = std::array<std::shared_ptr<const nft::TableSpec>, 2>;

inline Specs MakeSpecs(const RulesetOptions& ruleset, const std::vector<uint32_t>& timers) {
  Specs specs;
  for (const Family family : kFamilies) {
    specs[Index(family)] = std::make_shared<nft::TableSpec>(MakeTable(family, ruleset, timers));
  }
  return specs;
}

// A plan, and the state that becomes valid when the plan is committed.
struct SyncPlan {
  // Returns true if there is nothing to commit.
  bool empty() const { return has_marker && plan.transaction().empty(); }

  Plan plan;
  PhaseContext context;             // For the division into phases.
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
  std::optional<std::vector<Row>> node_rows;  // Absent if unchanged.
  std::vector<PlanFinding> findings;
  int64_t more_resets = 0;      // Number of Services with resets in addition to the applied rows.
  int64_t source_rows[2] = {};  // Number of source range rows in addition to the applied rows.
};

class Rejections;

class Planner {
 public:
  Planner(nft::Kernel& kernel, const ReconcilerOptions& options, Store& store,
          const Applied& applied, const Leftovers& leftovers, const NodeFollower& node,
          Rejections& rejections);

  Numbering& numbering() { return numbering_; }
  const Numbering& numbering() const { return numbering_; }
  // Call ContinueFrom if there are tables of a previous run. The first rewrite continues with the
  // numbers of their elements. `next`: the next numbers of the previous run, or 0 if unknown.
  void ContinueFrom(const NextNumbers& next) { previous_ = next; }
  // Returns true before the first rewrite if there are tables of a previous run.
  bool continues() const { return previous_.has_value(); }

  // Takes dirty Services from the store until the plan has `element_limit` elements. The plan
  // contains all changes of these Services.
  SyncPlan MakeChanges(size_t element_limit);
  // Returns true if the plan deletes many source ranges, for which the kernel needs quadratic
  // time.
  bool RemovesManyRanges(const SyncPlan& sync_plan) const;

  // Reads the tables. Returns an error if reading has failed and may succeed later.
  absl::StatusOr<FoundTables> ReadTables() const;
  // Like MakeChanges, but the plan contains the differences between all desired rows and `found`.
  // Returns an error if the tables cannot be compared with unmodified tables. If `found` is null,
  // the plan deletes both tables and creates them again. This is the last resort, because packets
  // may be lost and affinity records are deleted.
  absl::StatusOr<SyncPlan> MakeRewrite(size_t element_limit, const FoundTables* found);

  // Marks the Services of a plan that was not committed as dirty again, and releases its numbers.
  void Undo(SyncPlan& sync_plan);
  // Call Committed when the last plan was committed.
  void Committed();
  // Call ForgetFoundPorts when all Services are written. Returns the numbers of the previous run
  // that no Service uses. They become free when their elements are deleted.
  std::vector<Number> ForgetFoundPorts();

 private:
  void AddDirty(SyncPlan& sync_plan, size_t element_limit);
  void AddService(DirtyService dirty, DesiredContext& context, SyncPlan& sync_plan);
  const std::string* RejectedHolder(const std::string& key, const ServiceRows& rows) const;
  RulesInUse NeededRules(int64_t more_resets, const SetCounts& more_rows) const;
  void ChangeRules(SyncPlan& sync_plan) const;

  // Rewrites.
  absl::Status ReadTable(Family family, FoundTables& found) const;
  absl::Status ReadEndpoints(Family family, std::optional<uint64_t> count,
                             FoundElements& elements) const;
  void TakeNumbers(const FoundTables* tables);
  void AddAllRows(SyncPlan& sync_plan, size_t element_limit);
  absl::Status KeepWhatIsFound(const FoundTables& found, SyncPlan& sync_plan) const;

  nft::Kernel& kernel_;
  const ReconcilerOptions& options_;
  RulesetOptions ruleset_ = options_.ruleset;  // Includes the rules that the last plan needs.
  Store& store_;
  const Applied& applied_;
  const Leftovers& leftovers_;
  const NodeFollower& node_;
  Rejections& rejections_;
  Numbering numbering_;
  RulesInUse rules_created_;  // Value of RulesetOptions::rules_in_use in the tables.
  std::optional<NextNumbers> previous_;
};

// Computes the desired rows of a Service. `source_rows` is the number of source range rows that the
// plan has in addition to the applied rows. Desire() adds the source range rows of this Service.
DesiredService Desire(const std::string& key, const Store& store, const Applied& applied,
                      const ServiceRows* before, int64_t (&source_rows)[2],
                      DesiredContext& context);

}  // namespace svcmap::proxy
