// Computes the effect of changes without applying them.
#include <algorithm>
#include <iterator>
#include <utility>

#include "proxy/reconcile/reconciler.h"

namespace svcmap::proxy {

DryRun Reconciler::Try(const std::function<void()>& change) {
  DryRun result;
  result.revision = revision();
  // The state after future commits. `layer` contains the rows of the changed Services.
  NodeFacts facts = node_.facts();
  std::vector<Row> node_rows = applied_.node_rows();
  absl::flat_hash_map<std::string, ServiceRows> layer;
  Numbering numbering = planner_.numbering();
  DesiredContext context = numbering.Context(store_, facts, applied_);
  int64_t source_rows[2] = {};  // Number of source range rows in addition to the applied rows.
  // Updates this state with the dirty Services of the trial. Adds the difference to `plan`.
  const auto follow = [&](bool node_changed, Plan& plan, std::vector<Finding>& findings) {
    if (node_changed) {
      const NodeFacts before = std::exchange(facts, node_.FactsNow());
      std::vector<Row> rows = node_.Rows(facts);
      plan.AddRows(node_rows, rows);
      node_rows = std::move(rows);
      if (before != facts) store_.MarkDirtyIf(DependsOn(before, facts));
    }
    while (store_.dirty().First() != nullptr) {
      const std::string key = store_.dirty().Take().key;
      const auto layered = layer.find(key);
      const ServiceRows* before = layered == layer.end() ? applied_.Find(key) : &layered->second;
      DesiredService desired = Desire(key, store_, applied_, before, source_rows, context);
      plan.AddService(key, before, desired.rows);
      std::ranges::move(desired.findings, std::back_inserter(findings));
      layer.insert_or_assign(key, std::move(desired.rows));
    }
  };

  Plan waiting;  // Changes that are not written yet, without `change`.
  std::vector<Finding> found_before;
  std::vector<std::string> dirty;
  store_.dirty().ForEach([&](const DirtyService& service) { dirty.push_back(service.key); });
  store_.BeginTrial();
  for (const std::string& key : dirty) store_.MarkDirty(key, 0);
  follow(node_.Changed(), waiting, found_before);

  SharedCounts shared;
  Plan plan(shared);
  const uint64_t node_version = store_.node_version();
  change();
  follow(store_.node_version() != node_version, plan, result.findings);
  const std::vector<Finding>& standing = standing_findings_.Of("");
  for (Finding& finding : node_.Findings(facts)) {
    if (std::ranges::find(standing, finding) != standing.end()) continue;
    result.findings.push_back(std::move(finding));
  }
  store_.EndTrial();
  for (const auto& [key, more] : plan.shared_changes()) {
    shared[key] = CountOf(applied_.shared(), key) + CountOf(waiting.shared_changes(), key);
  }
  plan.Finish();

  result.rows = std::move(plan.transaction());
  result.recreates = !result.rows.empty() && tables_ != TableState::kCurrent;
  return result;
}

}  // namespace svcmap::proxy
