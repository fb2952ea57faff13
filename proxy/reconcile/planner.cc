#include "proxy/reconcile/planner.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "proxy/diff/chains.h"
#include "proxy/reconcile/rejections.h"

namespace svcmap::proxy {
namespace {

void AddResets(const ServiceRows* before, const ServiceRows& after, SyncPlan& sync_plan) {
  const bool had_resets = before != nullptr && before->tcp_resets != TcpResets::kOff;
  const bool has_resets = !after.empty() && after.tcp_resets != TcpResets::kOff;
  sync_plan.more_resets += int64_t{has_resets} - int64_t{had_resets};
}

}  // namespace

DesiredService Desire(const std::string& key, const Store& store, const Applied& applied,
                      const ServiceRows* before, int64_t (&source_rows)[2],
                      DesiredContext& context) {
  int64_t had[2] = {};
  for (const Family family : kFamilies) {
    const size_t index = Index(family);
    if (before != nullptr) had[index] = static_cast<int64_t>(SourceRowCount(*before, family));
    const int64_t left = static_cast<int64_t>(kMaxSourceRows) -
                         static_cast<int64_t>(applied.SourceRows(family)) - source_rows[index];
    context.source_rows[index] = static_cast<size_t>(std::max<int64_t>(left, 0) + had[index]);
  }
  DesiredService desired = MakeDesiredService(store.Find(key), context, before);
  for (const Family family : kFamilies) {
    source_rows[Index(family)] +=
        static_cast<int64_t>(SourceRowCount(desired.rows, family)) - had[Index(family)];
  }
  return desired;
}

Planner::Planner(nft::Kernel& kernel, const ReconcilerOptions& options, Store& store,
                 const Applied& applied, const Leftovers& leftovers, const NodeFollower& node,
                 Rejections& rejections)
    : kernel_(kernel),
      options_(options),
      store_(store),
      applied_(applied),
      leftovers_(leftovers),
      node_(node),
      rejections_(rejections) {
  ruleset_.rules_in_use = NeededRules(0, {});
}

SyncPlan Planner::MakeChanges(size_t element_limit) {
  SyncPlan sync_plan{.plan = Plan(applied_.shared())};
  if (node_.Changed()) {
    sync_plan.node_rows = node_.Rows(node_.facts());
    sync_plan.plan.AddRows(applied_.node_rows(), *sync_plan.node_rows);
  }
  AddDirty(sync_plan, element_limit);
  sync_plan.plan.Finish();
  ruleset_.rules_in_use = NeededRules(sync_plan.more_resets, sync_plan.plan.counts());
  ChangeRules(sync_plan);
  sync_plan.context.ended_sets = sync_plan.plan.ended_sets();
  return sync_plan;
}

void Planner::AddDirty(SyncPlan& sync_plan, size_t element_limit) {
  DesiredContext context = numbering_.Context(store_, node_.facts(), applied_);
  DirtyServices& dirty = store_.dirty();
  // If an address moves between Services, all of them are changed in the same transaction.
  // Otherwise, one Service would add the address before the other Service releases it.
  if (store_.addresses_moved()) element_limit = SIZE_MAX;
  while (dirty.First() != nullptr && sync_plan.plan.element_bound() < element_limit &&
         sync_plan.dirty.size() < rejections_.service_limit()) {
    // A Service that the kernel has rejected is retried alone.
    const bool alone = rejections_.Contains(dirty.First()->key);
    if (alone && !sync_plan.dirty.empty()) break;
    if (alone) element_limit = 0;
    AddService(dirty.Take(), context, sync_plan);
  }
}

void Planner::AddService(DirtyService dirty, DesiredContext& context, SyncPlan& sync_plan) {
  const ServiceRows* before = applied_.Find(dirty.key);
  int64_t source_rows[2] = {sync_plan.source_rows[0], sync_plan.source_rows[1]};
  DesiredService desired = Desire(dirty.key, store_, applied_, before, source_rows, context);
  if (const std::string* holder = RejectedHolder(dirty.key, desired.rows)) {
    numbering_.numbers.GiveBack(desired.new_numbers);
    rejections_.PutOff(dirty, *holder);
    return;
  }
  std::ranges::copy(source_rows, sync_plan.source_rows);
  AddResets(before, desired.rows, sync_plan);
  sync_plan.plan.AddService(dirty.key, sync_plan.rewrite ? nullptr : before, desired.rows);
  for (auto [from, to] : {std::pair{&desired.new_numbers, &sync_plan.new_numbers},
                          std::pair{&desired.old_numbers, &sync_plan.old_numbers}}) {
    to->insert(to->end(), from->begin(), from->end());
  }
  for (Finding& finding : desired.findings) {
    sync_plan.findings.push_back(
        {.sequence = dirty.sequence, .service = dirty.key, .finding = std::move(finding)});
  }
  sync_plan.services.emplace_back(dirty.key, std::move(desired.rows));
  sync_plan.dirty.push_back(std::move(dirty));
}

// Returns a rejected Service that has one of the rows in the kernel, or null. Its stored version
// may have released an address that its applied rows still contain.
const std::string* Planner::RejectedHolder(const std::string& key, const ServiceRows& rows) const {
  if (rejections_.services().empty()) return nullptr;
  absl::flat_hash_set<std::string> keys;
  for (const Row& row : OwnRows(key, rows)) keys.insert(SharedKey(row.set, row.key.bytes()));
  for (const std::string& holder : rejections_.services()) {
    const ServiceRows* held = applied_.Find(holder);
    if (held == nullptr || holder == key) continue;
    const auto has = [&](const Row& row) {
      return keys.contains(SharedKey(row.set, row.key.bytes()));
    };
    if (std::ranges::any_of(OwnRows(holder, *held), has)) return &holder;
  }
  return nullptr;
}

// `more_resets`: number of Services with resets in addition to the applied rows. `more_rows`: rows
// in addition to the applied rows.
RulesInUse Planner::NeededRules(int64_t more_resets, const SetCounts& more_rows) const {
  RulesInUse rules;
  rules.resets =
      options_.reset_stale_tcp || static_cast<int64_t>(applied_.reset_services()) + more_resets > 0;
  // Packets that have picked their own destination before the switch still need the rules.
  rules.self_endpoints =
      leftovers_.Count(kSelfEndpoints) > 0 || std::ranges::any_of(kFamilies, [&](Family family) {
        return applied_.counts()[Index(family)][kSelfEndpoints] > 0 ||
               more_rows[Index(family)][kSelfEndpoints] > 0;
      });
  return rules;
}

// If a Service has an affinity timeout without chains, adds the chains of this timeout and rewrites
// the rules that jump to them. The timeout can replace one that no Service uses. If the plan needs
// other RulesInUse, writes the chains that have these rules.
void Planner::ChangeRules(SyncPlan& sync_plan) const {
  const AffinityTimers& timers = numbering_.timers;
  if (timers.committed() == timers.seconds() && ruleset_.rules_in_use == rules_created_) return;
  RulesetOptions before = ruleset_;
  before.rules_in_use = rules_created_;
  sync_plan.specs = MakeSpecs(ruleset_, timers.seconds());
  for (const auto& spec : sync_plan.specs) {
    sync_plan.plan.transaction().RepairChains(
        ChainChanges(MakeTable(spec->family, before, timers.committed()), spec));
  }
}

bool Planner::RemovesManyRanges(const SyncPlan& sync_plan) const {
  size_t rows = 0;
  for (const Family family : kFamilies) rows += applied_.SourceRows(family);
  return RemovesManySourceRows(sync_plan.plan.source_rows_removed(), rows);
}

void Planner::Undo(SyncPlan& sync_plan) {
  numbering_.numbers.GiveBack(sync_plan.new_numbers);
  numbering_.timers.Rollback();
  store_.dirty().Return(std::move(sync_plan.dirty));
}

void Planner::Committed() {
  numbering_.timers.Commit();
  rules_created_ = ruleset_.rules_in_use;
}

}  // namespace svcmap::proxy
