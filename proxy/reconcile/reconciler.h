// Brings the kernel to the state in the store. Each Sync() compares the rows of the changed
// Services with the applied rows and writes the difference, usually in one transaction. The applied
// rows change only after the commit. The cost of a Sync depends on the size of the change.
//
// Reconciler coordinates classes with one job each. Planner computes the changes and rewrites,
// Repairer repairs chains and single rows, and Rejections decides how to react to rejected changes.
// states.h describes the states of the tables, and phases.h the order of commits.
//
// A Service that the kernel rejects keeps its last accepted rows. Sync() retries the Service later.
//
// Not thread-safe; owned by the reconcile loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "nft/model/kernel.h"
#include "proxy/applied/applied.h"
#include "proxy/diff/leftovers.h"
#include "proxy/explain/explain.h"
#include "proxy/explain/kernel_check.h"
#include "proxy/reconcile/loop_status.h"
#include "proxy/reconcile/node_follower.h"
#include "proxy/reconcile/planner.h"
#include "proxy/reconcile/rejections.h"
#include "proxy/reconcile/schedule.h"
#include "proxy/reconcile/states.h"
#include "proxy/repair/repairer.h"
#include "proxy/saved/object_writer.h"
#include "proxy/state/standing_findings.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

class Reconciler {
 public:
  // If `disk` is null, no objects are saved.
  Reconciler(nft::Kernel& kernel, ReconcilerOptions options, ObjectWriter* disk = nullptr);

  Store& store() { return store_; }
  const Store& store() const { return store_; }

  NodeFollower& node() { return node_; }

  // Call Invalidate if the tables may differ from the applied rows in more than the suspect rows.
  // The next Sync rewrites the tables.
  void Invalidate() {
    if (tables_ == TableState::kCurrent) tables_ = TableState::kUnverified;
  }

  // Reads the markers of a previous run, and returns the first state of this run. If the result is
  // kPartial or kStored, the saved objects match the tables, and the caller must apply them to the
  // store next. The first plan then reads the tables, continues with the numbers of their elements,
  // and writes what differs. Revisions continue from the previous run's revision.
  absl::StatusOr<Received> Adopt(const SavedObjects& saved = {});

  // Number of Services with endpoints in the tables of the previous run, if Adopt() has found no
  // saved objects for these tables.
  size_t previous_services() const { return previous_services_; }

  // Call MarkSuspect if another process has changed svcmap's tables. Repair() then checks the
  // changed rows.
  void MarkSuspect(const nft::ForeignChange& change) { repairer_.MarkSuspect(change); }
  // Checks a part of the suspect rows and repairs differences. If no rows are suspect, checks the
  // next part of all applied rows (audit).
  RepairResult Repair();

  // Marks all Services that the kernel has rejected as dirty.
  void RetryRejected() { rejections_.MarkDirty(store_); }

  // Returns true if a Sync() would have something to plan.
  bool Pending() const;
  Schedule::Work WorkLeft() const;
  // Sets the counts and facts in `status` that do not depend on the loop.
  void FillStatus(LoopStatus& status) const;

  // Commits one plan for the dirty Services, in the order of their first change. Adds Services
  // until the plan has `element_limit` elements. A large plan is committed in several transactions.
  // All transactions before the last one add elements that no packet can reach until the last
  // transaction is committed. Without dirty Services, saves objects that changed without an effect,
  // and retries saving if a retry is due. `partial` is saved for the next run: true if no objects
  // are stored, or only a part of the first snapshot, which has not ended.
  SyncResult Sync(size_t element_limit, bool partial = false);

  // Elements that new packets can no longer reach.
  Leftovers& leftovers() { return leftovers_; }
  // Waits for the packets that may still reach leftovers. Thread-safe.
  void AwaitPackets() const { options_.await_packets(); }
  // Deletes some of the leftovers. Waits for packets if no leftovers are due. After an error, the
  // leftovers are suspect, and Repair() deletes them.
  nft::ApplyResult RemoveLeftovers();

  // Returns the revision, which increases with each commit that has an effect, and survives
  // restarts.
  uint64_t revision() const { return applied_.marker().generation; }
  const Applied& applied() const { return applied_; }

  // Returns the data from which rows are computed. Valid until the next call of any other function.
  ExplainContext ContextForExplain();
  // Returns a comparison of the elements that determine the destination of packets of `question`.
  // `explained` is the result of Explain(). Call KernelCheck::Read() on the loop's thread.
  std::unique_ptr<KernelCheck> MakeCheck(const Question& question, const Explained& explained,
                                         const nft::TableSpecs& tables);

  // Calls `change`, which changes the store, computes its effect on the kernel, and undoes the
  // change. If earlier changes are not written yet, the result contains only the additional effect
  // of `change`.
  DryRun Try(const std::function<void()>& change);

 private:
  friend class RowReader;
  using Clock = std::chrono::steady_clock;

  // Returns true if the marker in the tables does not match whether the objects are saved.
  bool MarkerIsOutdated() const { return applied_.marker().saved != IsSaving(); }
  // Returns true if all objects that were passed to SaveObjects() are saved, or are being saved.
  bool IsSaving() const { return disk_ != nullptr && !outdated_ && disk_->works(); }
  uint64_t NextRevision() const {
    return std::max(applied_.marker().generation, unknown_generation_) + 1;
  }
  Marker NextMarker();
  ServiceRows DesiredRowsOf(const std::string& key, Numbering& numbering,
                            int64_t (&source_rows)[2]) const;

  // Sync.
  // Returns true if the changed objects were passed to the disk.
  bool Program(size_t element_limit, SyncResult& result);
  absl::StatusOr<SyncPlan> MakePlan(size_t element_limit, std::vector<RepairResult>& repairs);
  absl::StatusOr<SyncPlan> MakeRewrite(size_t element_limit);
  void RepairBeforePlan(std::vector<RepairResult>& repairs);
  void Commit(SyncPlan& sync_plan, const Marker& marker, SyncResult& result);
  nft::ApplyResult CommitFirst(SyncPlan& sync_plan);
  absl::Status Settle(const nft::ApplyResult& result, const Marker& attempted);
  void Advance(SyncPlan& sync_plan, const Marker& marker);
  void SaveObjects(uint64_t revision);
  void AwaitSaved();
  void UpdateFindings(SyncPlan& sync_plan, SyncResult& result);
  void Announce(SyncPlan& sync_plan, SyncResult& result);

  nft::Kernel& kernel_;
  const ReconcilerOptions options_;
  Store store_;
  Applied applied_;
  TableState tables_ = TableState::kUnverified;
  NodeFollower node_{options_, store_, applied_};
  Rejections rejections_;
  Leftovers leftovers_;
  Planner planner_{kernel_, options_, store_, applied_, leftovers_, node_, rejections_};
  ObjectWriter* const disk_;  // Null if no objects are saved.
  // True if the saved objects differ from the stored objects. The next SaveObjects() replaces
  // all saved objects.
  bool outdated_ = false;
  bool partial_ = false;  // See Sync().
  Repairer repairer_{kernel_, applied_};
  StandingFindings standing_findings_;
  std::vector<IpAddress> health_check_addresses_;    // As in the last SyncResult that had them.
  absl::flat_hash_set<std::string> health_checked_;  // Services with a healthCheckNodePort.
  absl::flat_hash_set<std::string> on_localhost_;  // Services with nodePorts on loopback addresses.
  NodePortUse node_port_use_;  // Value at the last computation of the node's findings.
  // The last generation whose commit had an unknown outcome. No later attempt may have the same
  // marker, because the tables may contain different leftovers.
  uint64_t unknown_generation_ = 0;
  size_t previous_services_ = 0;
  int failed_reads_ = 0;  // Consecutive failures to read unverified tables.
  // True if the last plan was not committed. Another process may be the reason, or some elements of
  // the plan were committed (SyncPlan::ahead). Suspect rows are checked before the next plan.
  bool plan_failed_ = false;
};

}  // namespace svcmap::proxy
