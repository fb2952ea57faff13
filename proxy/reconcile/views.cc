// What the reconciler shows of itself: dumps, and what explain needs.
#include "proxy/desired/node_rows.h"
#include "proxy/explain/kernel_check.h"
#include "proxy/reconcile/sync_plan.h"

namespace svcmap::proxy {

// What would be written for Services now. The numbers are taken when it is.
class Reconciler::Preview {
 public:
  explicit Preview(const Reconciler& reconciler)
      : reconciler_(reconciler),
        numbers_(reconciler.numbers_),
        timers_(reconciler.timers_),
        memory_(reconciler.memory_),
        context_{reconciler.store_.claims(), reconciler.node_, numbers_, timers_, memory_} {}

  ServiceRows Rows(const std::string& key) {
    const ServiceRows* before = reconciler_.applied_.Find(key);
    AllowSources(reconciler_.applied_, {0, 0}, before, context_);
    return MakeDesiredService(reconciler_.store_.Find(key), context_, before).rows;
  }

 private:
  const Reconciler& reconciler_;
  Numbers numbers_;
  AffinityTimers timers_;
  AffinityMemory memory_;
  DesiredContext context_;
};

nft::Transaction Reconciler::AppliedRows() const {
  static const SharedCounts kNone;
  Plan plan(kNone);
  plan.AddRanges({}, applied_.node_rows());
  for (const auto& [key, rows] : applied_.services()) plan.AddService(key, nullptr, rows);
  plan.Finish();
  return std::move(plan.transaction());
}

nft::Transaction Reconciler::DesiredRows() {
  FollowNode();
  static const SharedCounts kNone;
  Plan plan(kNone);
  plan.AddRanges({}, NodeRows(options_.ruleset, ThisNode(), store_));
  Preview preview(*this);
  store_.ForEachService([&](const std::string& key, const ServiceEntry&) {
    plan.AddService(key, nullptr, preview.Rows(key));
  });
  plan.Finish();
  return std::move(plan.transaction());
}

nft::Transaction Reconciler::PendingRows() {
  FollowNode();
  const Numbers numbers = numbers_;
  const AffinityTimers timers = timers_;
  SyncPlan sync_plan = recreate_ ? MakeRecreation(SIZE_MAX, nullptr) : MakeSyncPlan(SIZE_MAX);
  nft::Transaction rows = std::move(sync_plan.plan.transaction());
  Undo(sync_plan);
  numbers_ = numbers;
  timers_ = timers;
  return rows;
}

ExplainContext Reconciler::ContextForExplain() {
  FollowNode();
  return {store_, options_.ruleset, ThisNode(), node_, interfaces_};
}

absl::StatusOr<std::vector<std::string>> Reconciler::Disagreements(const nft::TableSpecs& tables,
                                                                   const Question& question,
                                                                   const Explained& explained) {
  static const SharedCounts kNone;
  Plan plan(kNone);
  ServiceRows rows;
  if (!explained.service_key.empty()) {
    rows = Preview(*this).Rows(explained.service_key);
    std::erase_if(rows.ports, [&](const PortRows& port) {
      return port.family != question.destination.family() ||
             port.protocol != explained.port.protocol || port.port != explained.port.port;
    });
  }
  // The address may be the clusterIP of another Service than the one that has the port.
  rows.cluster_ips.clear();
  if (explained.cluster_ip) rows.cluster_ips = {question.destination};
  plan.AddService(explained.service_key, nullptr, rows);
  plan.Finish();
  return KernelDifferences(kernel_, tables, plan.transaction(),
                           DecidingRows(question.destination, question.protocol, question.port));
}

}  // namespace svcmap::proxy
