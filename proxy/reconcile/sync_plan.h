// Declarations that only the source files of the reconciler share.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/reconcile/reconciler.h"

namespace svcmap::proxy {

// Maximum number of elements in one commit, unless other rows of the same commit lead to them.
inline constexpr size_t kMaxElements = 10000;

struct Reconciler::SyncPlan {
  explicit SyncPlan(const SharedCounts& shared) : plan(shared) {}

  Plan plan;
  nft::Transaction ahead;     // Additions that were, or may have been, committed before the plan.
  nft::Transaction removals;  // Deletions after the commit of the plan, see TakeRemovals().
  bool recreate = false;
  std::vector<std::string> replaced_chains;  // See SyncResult.
  Specs specs;  // The tables after the commit, if chains or rules change. Otherwise null.
  std::vector<Store::Dirty> dirty;
  Applied::ServiceChanges services;
  std::vector<Number> new_numbers;
  std::vector<Number> old_numbers;
  std::vector<Number> gone_ports;  // Ports with session affinity that only the found tables have.
  std::vector<Row> node_rows;
  std::vector<std::pair<uint64_t, Finding>> findings;
  // Services whose TCP connections to endpoints that are gone are reset, or were reset before.
  std::vector<std::string> tcp_resets;
  int64_t more_resets = 0;      // Number of Services with resets in addition to the applied rows.
  int64_t source_rows[2] = {};  // Number of source range rows in addition to the applied rows.
};

// Both tables as a rewrite found them.
struct Reconciler::FoundTables {
  FoundElements elements;
  // The content of unmodified tables with the affinity timeouts `timers`.
  std::array<nft::TableContent, 2> references;
  std::vector<uint32_t> timers;
  RulesInUse rules;  // Value of RulesetOptions::rules_in_use in `references`.
};

// Computes the desired rows of a Service. `source_rows` is the number of source range rows that the
// plan has in addition to the applied rows. Desire adds the Service's share.
DesiredService Desire(const std::string& key, const Store& store, const Applied& applied,
                      const ServiceRows* before, int64_t (&source_rows)[2],
                      DesiredContext& context);

// Sets context.source_rows, the number of source range rows that the Service may have. `more`: rows
// of other Services in addition to the applied rows.
void AllowSources(const Applied& applied, const int64_t (&more)[2], const ServiceRows* before,
                  DesiredContext& context);

// Returns a predicate that is true for Services whose rows may change with the node.
std::function<bool(const ServiceEntry&)> DependsOn(const NodeFacts& before, const NodeFacts& after);

size_t SourceRowsBefore(const ServiceRows* before, Family family);

}  // namespace svcmap::proxy
