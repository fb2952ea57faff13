// Computes the effect of changes without applying them.
#include <algorithm>
#include <iterator>

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
  explicit DryRunState(const Reconciler& reconciler)
      : reconciler_(reconciler),
        numbering_(reconciler.planner_.numbering()),
        node_(reconciler.node_.facts()),
        node_rows_(reconciler.applied_.node_rows()) {}

  // Updates the layer from the current store. Adds the difference to `plan`.
  void Follow(bool node_changed, Plan& plan, std::vector<Finding>& findings) {
    const NodeFacts before = node_;
    if (node_changed) {
      node_ = reconciler_.node_.FactsNow();
      std::vector<Row> rows = reconciler_.node_.Rows(node_);
      plan.AddRows(node_rows_, rows);
      node_rows_ = std::move(rows);
    }
    for (const std::string& key : ChangedServices(before)) Add(key, plan, findings);
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
  // Returns the keys of Services to compute. Services that depend on the change of the node come
  // first, as in Store::MarkDirtyIf. Dirty Services follow.
  std::vector<std::string> ChangedServices(const NodeFacts& before) const {
    const Store& store = reconciler_.store_;
    std::vector<std::string> dirty, keys;
    store.dirty().ForEach([&](const DirtyService& service) { dirty.push_back(service.key); });
    if (before == node_) return dirty;
    const absl::flat_hash_set<std::string> known(dirty.begin(), dirty.end());
    const auto depends = DependsOn(before, node_);
    store.ForEachService([&](const std::string& key, const ServiceEntry& entry) {
      if (entry.service && !known.contains(key) && depends(entry)) keys.push_back(key);
    });
    std::sort(keys.begin(), keys.end());
    keys.insert(keys.end(), dirty.begin(), dirty.end());
    return keys;
  }

  void Add(const std::string& key, Plan& plan, std::vector<Finding>& findings) {
    const Reconciler& r = reconciler_;
    DesiredContext context = numbering_.Context(r.store_, node_, r.applied_);
    const auto layered = rows_.find(key);
    const ServiceRows* before = layered == rows_.end() ? r.applied_.Find(key) : &layered->second;
    DesiredService desired = Desire(key, r.store_, r.applied_, before, source_rows_, context);
    plan.AddService(key, before, desired.rows);
    std::move(desired.findings.begin(), desired.findings.end(), std::back_inserter(findings));
    rows_.insert_or_assign(key, std::move(desired.rows));
  }

  const Reconciler& reconciler_;
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
  outlook.Follow(node_.Changed(), waiting, found_before);

  SharedCounts shared;
  Plan plan(shared);
  const uint64_t node_version = store_.node_version();
  store_.BeginTrial();
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
