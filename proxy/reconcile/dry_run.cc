// Computes the effect of changes without applying them.
#include <algorithm>
#include <iterator>
#include <utility>

#include "proxy/reconcile/reconciler.h"

namespace svcmap::proxy {
namespace {

int32_t CountOf(const SharedCounts& counts, const std::string& key) {
  const auto found = counts.find(key);
  return found == counts.end() ? 0 : found->second;
}

}  // namespace

// The rows after future commits: a layer over the applied rows that contains the changed Services.
class Reconciler::DryRunState {
 public:
  explicit DryRunState(Reconciler& reconciler)
      : reconciler_(reconciler),
        numbering_(reconciler.planner_.numbering()),
        node_(reconciler.node_.facts()),
        node_rows_(reconciler.applied_.node_rows()) {}

  // Updates the layer with the dirty Services of the trial. Adds the difference to `plan`.
  void Follow(bool node_changed, Plan& plan, std::vector<Finding>& findings) {
    Store& store = reconciler_.store_;
    if (node_changed) {
      const NodeFacts before = std::exchange(node_, reconciler_.node_.FactsNow());
      std::vector<Row> rows = reconciler_.node_.Rows(node_);
      plan.AddRows(node_rows_, rows);
      node_rows_ = std::move(rows);
      if (before != node_) store.MarkDirtyIf(DependsOn(before, node_));
    }
    while (store.dirty().First() != nullptr) Add(store.dirty().Take().key, plan, findings);
  }

  // Adds findings about the node that do not stand yet.
  void AddNodeFindings(std::vector<Finding>& findings) const {
    const std::vector<Finding>& standing = reconciler_.standing_findings_.Of("");
    for (Finding& finding : reconciler_.node_.Findings(node_)) {
      if (std::ranges::find(standing, finding) != standing.end()) continue;
      findings.push_back(std::move(finding));
    }
  }

 private:
  void Add(const std::string& key, Plan& plan, std::vector<Finding>& findings) {
    const Reconciler& r = reconciler_;
    DesiredContext context = numbering_.Context(r.store_, node_, r.applied_);
    const auto layered = rows_.find(key);
    const ServiceRows* before = layered == rows_.end() ? r.applied_.Find(key) : &layered->second;
    DesiredService desired = Desire(key, r.store_, r.applied_, before, source_rows_, context);
    plan.AddService(key, before, desired.rows);
    std::ranges::move(desired.findings, std::back_inserter(findings));
    rows_.insert_or_assign(key, std::move(desired.rows));
  }

  Reconciler& reconciler_;
  Numbering numbering_;
  NodeFacts node_;
  std::vector<Row> node_rows_;
  absl::flat_hash_map<std::string, ServiceRows> rows_;
  int64_t source_rows_[2] = {};  // Number of source range rows in addition to the applied rows.
};

DryRun Reconciler::Try(const std::function<void()>& change) {
  DryRun result;
  result.revision = revision();
  DryRunState outlook(*this);
  static const SharedCounts kNone;
  Plan waiting(kNone);  // Changes that are not written yet, without `change`.
  std::vector<Finding> found_before;
  std::vector<std::string> dirty;
  store_.dirty().ForEach([&](const DirtyService& service) { dirty.push_back(service.key); });
  store_.BeginTrial();
  for (const std::string& key : dirty) store_.MarkDirty(key, 0);
  outlook.Follow(node_.Changed(), waiting, found_before);

  SharedCounts shared;
  Plan plan(shared);
  const uint64_t node_version = store_.node_version();
  change();
  outlook.Follow(store_.node_version() != node_version, plan, result.findings);
  outlook.AddNodeFindings(result.findings);
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
