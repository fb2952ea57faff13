// Computes plans: the difference between the desired rows of changed Services and their applied
// rows, or all rows for a rewrite of the tables.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "proxy/applied/applied.h"
#include "proxy/desired/service.h"
#include "proxy/diff/leftovers.h"
#include "proxy/reconcile/node_follower.h"
#include "proxy/reconcile/numbering.h"
#include "proxy/reconcile/rejections.h"
#include "proxy/reconcile/sync_plan.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

class Planner {
 public:
  // Each plan updates `ruleset` with the rules that the plan needs.
  Planner(RulesetOptions& ruleset, const ReconcilerOptions& options, Store& store,
          const Applied& applied, const Leftovers& leftovers, const NodeFollower& node,
          Rejections& rejections, Numbering& numbering);

  // Takes dirty Services from the store until the plan has `element_limit` elements. The plan
  // contains all changes of these Services.
  SyncPlan MakeChanges(size_t element_limit);
  // Like MakeChanges, but the plan contains all rows.
  SyncPlan MakeRewrite(size_t element_limit);
  // Returns true if the plan deletes many source ranges, for which the kernel needs quadratic
  // time.
  bool RemovesManyRanges(const SyncPlan& sync_plan) const;
  // Marks the Services of a plan that was not committed as dirty again, and releases its numbers.
  void Undo(SyncPlan& sync_plan);
  // Call Committed when the last plan was committed.
  void Committed();

 private:
  void AddDirty(SyncPlan& sync_plan, size_t element_limit);
  void ChangeRules(SyncPlan& sync_plan) const;
  void AddService(DirtyService dirty, DesiredContext& context, SyncPlan& sync_plan);
  const std::string* RejectedHolder(const std::string& key, const ServiceRows& rows) const;
  RulesInUse NeededRules(int64_t more_resets, const SetCounts& more_rows) const;

  RulesetOptions& ruleset_;
  const ReconcilerOptions& options_;
  Store& store_;
  const Applied& applied_;
  const Leftovers& leftovers_;
  const NodeFollower& node_;
  Rejections& rejections_;
  Numbering& numbering_;
  RulesInUse rules_created_;  // Value of RulesetOptions::rules_in_use in the tables.
};

// Computes the desired rows of a Service. `source_rows` is the number of source range rows that the
// plan has in addition to the applied rows. Desire() adds the source range rows of this Service.
DesiredService Desire(const std::string& key, const Store& store, const Applied& applied,
                      const ServiceRows* before, int64_t (&source_rows)[2],
                      DesiredContext& context);

}  // namespace svcmap::proxy
