// Provides the state of the reconciler for the status, for dumps and for explain.
#include <utility>

#include "proxy/explain/kernel_check.h"
#include "proxy/reconcile/reconciler.h"
#include "proxy/reconcile/row_reader.h"

namespace svcmap::proxy {

Schedule::Work Reconciler::WorkLeft() const {
  return {.changes = Pending(),
          .unsaved = disk_ != nullptr && disk_->needs_everything(),
          .leftovers = leftovers_.due() || leftovers_.NeedWait(),
          .suspects = tables_ == TableState::kCurrent && repairer_.has_suspects(),
          .rejected = rejections_.services().size() > 0,
          .saves_state = disk_ != nullptr,
          .tables = tables_};
}

void Reconciler::FillStatus(LoopStatus& status) const {
  const Node* node = node_.ThisNode();
  status.revision = revision();
  status.services = store_.service_count();
  status.slices = store_.slices().size();
  status.nodes = store_.nodes().size();
  status.service_cidrs = store_.service_cidrs().size();
  status.object_bytes = store_.bytes();
  status.object_elements = store_.elements();
  status.pending_services = store_.dirty().size();
  status.node_known = node != nullptr;
  if (node != nullptr) status.node_eligible = node->eligible;
  status.service_ports = applied_.service_ports();
  status.elements = applied_.counts();
  status.findings = standing_findings_.list();
  status.no_local_endpoints = applied_.no_local_endpoints();
  status.leftovers = leftovers_.elements();
  status.audits = repairer_.audits();
  status.rejected_services = rejections_.services().size();
}

void RowReader::Start(Reconciler& reconciler) {
  started_ = true;
  const Applied& applied = reconciler.applied_;
  const Store& store = reconciler.store_;
  if (rows_ == Rows::kApplied) {
    plan_.AddRows({}, applied.node_rows());
    for (const auto& [key, rows] : applied.services()) keys_.push_back(key);
  } else {
    reconciler.node_.Follow();
    numbering_ = std::make_unique<Numbering>(reconciler.planner_.numbering());
    plan_.AddRows(rows_ == Rows::kDesired ? std::vector<Row>() : applied.node_rows(),
                  reconciler.node_.Rows(reconciler.node_.facts()));
  }
  if (rows_ == Rows::kDesired) {
    for (const auto& [key, entry] : store.services()) {
      if (entry.service) keys_.push_back(key);
    }
  } else if (rows_ == Rows::kPending) {
    store.dirty().ForEach([this](const DirtyService& dirty) { keys_.push_back(dirty.key); });
  }
}

bool RowReader::Read(Reconciler& reconciler, std::chrono::steady_clock::duration limit) {
  const auto start = std::chrono::steady_clock::now();
  if (!started_) Start(reconciler);
  while (next_key_ < keys_.size()) {
    const std::string& key = keys_[next_key_++];
    const ServiceRows* applied = reconciler.applied_.Find(key);
    if (rows_ != Rows::kApplied || applied != nullptr) {
      Portion& portion = copied_.emplace_back();
      portion.key = key;
      portion.after = rows_ == Rows::kApplied
                          ? *applied
                          : reconciler.DesiredRowsOf(key, *numbering_, source_rows_);
      if (rows_ == Rows::kPending && applied != nullptr) portion.before = *applied;
    }
    if (std::chrono::steady_clock::now() - start >= limit) return false;
  }
  if (!copied_.empty()) return false;
  if (rows_ == Rows::kPending) {
    for (const auto& [key, change] : plan_.shared_changes()) {
      shared_[key] = CountOf(reconciler.applied_.shared(), key);
    }
  }
  return true;
}

void RowReader::Merge() {
  for (const Portion& portion : copied_) {
    plan_.AddService(portion.key, portion.before ? &*portion.before : nullptr, portion.after);
  }
  copied_.clear();
}

nft::Transaction RowReader::Take() {
  plan_.Finish();
  return std::move(plan_.transaction());
}

// Returns the rows with the numbers that a commit would allocate from `numbering`.
ServiceRows Reconciler::DesiredRowsOf(const std::string& key, Numbering& numbering,
                                      int64_t (&source_rows)[2]) const {
  DesiredContext context = numbering.Context(store_, node_.facts(), applied_);
  return Desire(key, store_, applied_, applied_.Find(key), source_rows, context).rows;
}

ExplainContext Reconciler::ContextForExplain() {
  node_.Follow();
  return {store_,
          options_.ruleset,
          node_.ThisNode(),
          node_.facts(),
          node_.interfaces(),
          options_.localhost_node_ports,
          standing_findings_};
}

std::unique_ptr<KernelCheck> Reconciler::MakeCheck(const Question& question,
                                                   const Explained& explained,
                                                   const nft::TableSpecs& tables) {
  Plan plan;
  ServiceRows rows;
  if (!explained.service_key.empty()) {
    Numbering numbering = planner_.numbering();
    int64_t source_rows[2] = {};
    rows = DesiredRowsOf(explained.service_key, numbering, source_rows);
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
  std::vector<Row> deciding = DecidingRows(question.destination, question.protocol, question.port);
  // Packets no longer reach leftovers.
  std::erase_if(deciding,
                [&](const Row& row) { return leftovers_.Contains(row.set, row.key.bytes()); });
  return std::make_unique<KernelCheck>(kernel_, tables, std::move(plan.transaction()),
                                       std::move(deciding));
}

}  // namespace svcmap::proxy
