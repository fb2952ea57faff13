// Provides the state of the reconciler for dumps and for explain.
#include <utility>

#include "proxy/desired/node_rows.h"
#include "proxy/explain/kernel_check.h"
#include "proxy/reconcile/row_reader.h"
#include "proxy/reconcile/sync_plan.h"

namespace svcmap::proxy {

// The numbers that commits would allocate. The reconciler allocates its own numbers later.
class RowReader::Numbering {
 public:
  explicit Numbering(const Reconciler& reconciler)
      : numbers_(reconciler.numbers_), timers_(reconciler.timers_), memory_(reconciler.memory_) {}

  ServiceRows Rows(const Reconciler& reconciler, const std::string& key,
                   int64_t (&source_rows)[2]) {
    DesiredContext context{
        reconciler.store_.claims(),      reconciler.node_, numbers_, timers_, memory_,
        reconciler.applied_.timer_uses()};
    return Desire(key, reconciler.store_, reconciler.applied_, reconciler.applied_.Find(key),
                  source_rows, context)
        .rows;
  }
  const AffinityTimers& timers() const { return timers_; }

 private:
  Numbers numbers_;
  AffinityTimers timers_;
  AffinityMemory memory_;
};

RowReader::RowReader(Rows rows) : rows_(rows) {}

RowReader::~RowReader() = default;

void RowReader::Start(Reconciler& reconciler) {
  if (rows_ == Rows::kApplied) {
    node_rows_ = reconciler.applied_.node_rows();
    step_ = Step::kApplied;
    return;
  }
  reconciler.FollowNode();
  numbering_ = std::make_unique<Numbering>(reconciler);
  const Store& store = reconciler.store_;
  if (rows_ == Rows::kDesired) {
    keys_.reserve(store.service_count());
    store.ForEachService([this](const std::string& key, const ServiceEntry& entry) {
      if (entry.service) keys_.push_back(key);
    });
  } else {
    recreates_ = reconciler.recreate_;
    keys_.reserve(store.dirty_count());
    store.ForEachDirty([this](const Store::Dirty& dirty) { keys_.push_back(dirty.key); });
  }
  const bool all_rows = rows_ == Rows::kDesired || recreates_;
  if (all_rows || reconciler.node_version_ != store.node_version()) {
    node_rows_ =
        NodeRows(reconciler.options_.ruleset, reconciler.ThisNode(), reconciler.node_, store);
    if (!all_rows) node_rows_before_ = reconciler.applied_.node_rows();
  }
  step_ = Step::kServices;
}

void RowReader::ReadService(Reconciler& reconciler, const std::string& key) {
  const ServiceRows* before = reconciler.applied_.Find(key);
  Portion portion{.key = key, .after = numbering_->Rows(reconciler, key, source_rows_)};
  if (rows_ == Rows::kPending && !recreates_ && before != nullptr) portion.before = *before;
  copied_.push_back(std::move(portion));
}

// Reads the parts that depend on all Services.
void RowReader::ReadEnd(Reconciler& reconciler) {
  if (rows_ != Rows::kPending) return;
  if (!recreates_) {
    const SharedCounts& applied = reconciler.applied_.shared();
    for (const auto& [key, change] : plan_.shared_changes()) {
      const auto found = applied.find(key);
      if (found != applied.end()) shared_[key] = found->second;
    }
    return;
  }
  static const SharedCounts kNone;
  Reconciler::SyncPlan tables(kNone);
  for (const Family family : kFamilies) {
    tables.specs[Index(family)] = std::make_shared<nft::TableSpec>(
        MakeTable(family, reconciler.options_.ruleset, numbering_->timers().seconds()));
    reconciler.ReplaceTable(family, tables);
  }
  tables_ = std::move(tables.plan.transaction());
}

bool RowReader::Read(Reconciler& reconciler, std::chrono::steady_clock::duration limit) {
  const auto start = std::chrono::steady_clock::now();
  const auto over = [&] { return std::chrono::steady_clock::now() - start >= limit; };
  if (step_ == Step::kStart) {
    Start(reconciler);
    if (limit != kNoLimit) return false;
  }
  if (step_ == Step::kServices) {
    while (next_key_ < keys_.size()) {
      ReadService(reconciler, keys_[next_key_++]);
      if (over()) return false;
    }
    step_ = recreates_ ? Step::kApplied : Step::kEnd;
    if (!recreates_) return false;
  }
  if (step_ == Step::kApplied) {
    const Applied::Services& services = reconciler.applied_.services();
    auto next = last_applied_ ? services.upper_bound(*last_applied_) : services.begin();
    for (; next != services.end(); ++next) {
      if (read_.contains(next->first)) continue;
      copied_.push_back({.key = next->first, .after = next->second});
      last_applied_ = next->first;
      if (over()) return false;
    }
    step_ = Step::kEnd;
    return false;
  }
  ReadEnd(reconciler);
  return true;
}

void RowReader::Merge() {
  if (!std::exchange(merging_, true)) {
    plan_.AddRanges(node_rows_before_, node_rows_);
    if (recreates_) read_.insert(keys_.begin(), keys_.end());
  }
  for (const Portion& portion : copied_) {
    plan_.AddService(portion.key, portion.before ? &*portion.before : nullptr, portion.after);
  }
  copied_.clear();
}

nft::Transaction RowReader::Take() {
  plan_.Finish();
  tables_.AddElements(std::move(plan_.transaction()));
  return std::move(tables_);
}

nft::Transaction Reconciler::ReadAllRows(RowReader& reader) {
  while (!reader.Read(*this, RowReader::kNoLimit)) reader.Merge();
  reader.Merge();
  return reader.Take();
}

nft::Transaction Reconciler::DesiredRows() {
  RowReader reader(RowReader::Rows::kDesired);
  return ReadAllRows(reader);
}

nft::Transaction Reconciler::AppliedRows() {
  RowReader reader(RowReader::Rows::kApplied);
  return ReadAllRows(reader);
}

nft::Transaction Reconciler::PendingRows() {
  RowReader reader(RowReader::Rows::kPending);
  return ReadAllRows(reader);
}

ExplainContext Reconciler::ContextForExplain() {
  FollowNode();
  return {store_, options_.ruleset, ThisNode(), node_, interfaces_};
}

nft::Transaction Reconciler::DestinationRows(const Question& question, const Explained& explained) {
  static const SharedCounts kNone;
  Plan plan(kNone);
  ServiceRows rows;
  if (!explained.service_key.empty()) {
    int64_t source_rows[2] = {};
    rows = RowReader::Numbering(*this).Rows(*this, explained.service_key, source_rows);
    std::erase_if(rows.ports, [&](const PortRows& port) {
      return port.family != question.destination.family() ||
             port.protocol != explained.port.protocol || port.port != explained.port.port;
    });
  }
  // The address may be the clusterIP of a Service that does not have the port.
  rows.cluster_ips.clear();
  if (explained.cluster_ip) rows.cluster_ips = {question.destination};
  plan.AddService(explained.service_key, nullptr, rows);
  plan.Finish();
  return std::move(plan.transaction());
}

bool Reconciler::Compare(KernelCheck& check, std::chrono::steady_clock::duration limit) {
  return check.Read(kernel_, limit);
}

}  // namespace svcmap::proxy
