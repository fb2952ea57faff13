// Brings the kernel to the state in the store. Each Sync() compares the rows of the changed
// Services with the applied rows and sends one batch. The applied view changes only after the
// commit. The cost of a Sync depends on the size of the change.
//
// Make before break: a batch adds elements and switches to them. RemoveLeftovers() deletes elements
// that packets can no longer reach, after the commit. See docs/decisions/0011-make-before-break.md.
//
// If the tables do not exist, Sync() writes Service after Service in several batches. If the kernel
// differs from the applied rows, Repair() finds the differences and writes only these. If too much
// differs, or if nothing is known (start, unknown outcome of a commit), Sync() reads both tables
// and changes what differs. Base chains stay hooked, and clients keep their affinity records.
//
// A Service that the kernel rejects keeps its last accepted rows. Sync() tries it again later.
//
// Not thread-safe; owned by the reconcile loop.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nft/model/kernel.h"
#include "proxy/conntrack/udp_ports.h"
#include "proxy/desired/groups.h"
#include "proxy/desired/service.h"
#include "proxy/desired/sticky.h"
#include "proxy/diff/leftovers.h"
#include "proxy/diff/rewrite.h"
#include "proxy/explain/explain.h"
#include "proxy/explain/kernel_check.h"
#include "proxy/health/health_check.h"
#include "proxy/node/nodeport_addresses.h"
#include "proxy/reconcile/applied.h"
#include "proxy/reconcile/row_reader.h"
#include "proxy/repair/repairer.h"
#include "proxy/saved/state_log.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct ReconcilerOptions {
  std::string node_name;
  NodePortAddresses node_port_addresses;
  RulesetOptions ruleset;
};

struct SyncResult {
  enum class Outcome : uint8_t {
    kNothing,    // Nothing to write; the kernel was not asked.
    kCommitted,  // In the kernel.
    kFailed,     // Not, or not known to be, in the kernel; what was taken is dirty again.
  };
  Outcome outcome = Outcome::kNothing;
  absl::Status error;      // kFailed only.
  bool recreated = false;  // A complete rewrite was committed, or failed.
  // Base chains that had another type, hook or priority and were created again, in nft's notation.
  // Packets may have passed them untranslated.
  std::vector<std::string> replaced_chains;
  size_t elements = 0;
  std::chrono::nanoseconds duration{0};  // Of the commit.
  // With it: Stage::kPlan and kSave.
  std::chrono::nanoseconds plan_duration{0};
  std::chrono::nanoseconds save_duration{0};
  // What is not programmed, with the sequence of the change that showed it.
  std::vector<std::pair<uint64_t, Finding>> findings;
  // Unless it failed: the UDP ports, as they are now, of all Services that were taken.
  std::vector<std::pair<std::string, UdpPorts>> udp;
  // Unless it failed: of those that were taken and have a healthCheckNodePort, or had one.
  HealthCheckChanges health_checks;
  std::optional<std::vector<IpAddress>> health_check_addresses;  // If they changed (S-260).
  // Of the attempt, with all that was computed; 0: there was nothing to try. The loop measures it.
  std::chrono::nanoseconds whole{0};
};

// What a look at the kernel came to.
struct RepairResult {
  enum class Outcome : uint8_t {
    kNothing,   // What was looked at is right.
    kRepaired,  // It was not, and is again.
    kRewrite,   // Too much is wrong: the next Sync writes everything.
    kFailed,    // The kernel does not answer, or does not take the repair.
  };
  Outcome outcome = Outcome::kNothing;
  absl::Status error;   // kFailed only.
  size_t elements = 0;  // Missing, wrong or not ours.
  size_t chains = 0;
  std::chrono::nanoseconds duration{0};
};

// The outcome of RemoveLeftovers. After an error, the elements are suspect, and Repair() deletes
// them.
struct RemovalResult {
  absl::Status error;
  size_t elements = 0;
  std::chrono::nanoseconds duration{0};
};

// What changes would change, had they been applied.
struct DryRun {
  // Elements deleted and added, in the order of the transaction, without the marker.
  nft::Transaction rows;
  // It would write the tables whole; `rows` are what differs even so.
  bool recreates = false;
  std::vector<Finding> findings;  // What would not be programmed.
  uint64_t revision = 0;          // The present one.
};

// What a life begins with.
enum class AdoptedState : uint8_t {
  kNothing,   // No tables of ours, nothing saved.
  kUnknown,   // The tables of a life that left nothing behind that we may trust.
  kSaved,     // No tables; what is saved is to be written.
  kTrusted,   // The tables are as saved, and nobody has touched nf_tables since.
  kToVerify,  // They were as saved, but somebody has changed something somewhere.
  kUpgrade,   // They are as saved, but our rules are others now.
};

class Reconciler {
 public:
  // `log` may be null: nothing is saved.
  Reconciler(nft::Kernel& kernel, ReconcilerOptions options, StateLog* log = nullptr);

  Store& store() { return store_; }
  const Store& store() const { return store_; }

  // Null: unknown.
  const Node* ThisNode() const;

  // The node's own addresses, whenever they change.
  void SetInterfaceAddresses(std::vector<IpAddress> addresses);

  // The kernel is no longer what we applied; the next Sync writes everything.
  void Invalidate() {
    recreate_ = true;
    in_place_ = false;
  }

  // Reads what a former life left in the kernel and compares it with what it saved, of which it
  // takes all but the objects. Unless the beginning is kNothing or kUnknown, those are to be
  // applied to the store next. Revisions go on from the former life's.
  absl::StatusOr<AdoptedState> Adopt(SavedState& saved);
  absl::StatusOr<AdoptedState> Adopt() {
    SavedState nothing;
    return Adopt(nothing);
  }

  // Somebody changed our tables: Repair() will look.
  void MarkSuspect(const nft::ForeignChange& change) { repairer_.MarkSuspect(change); }
  bool HasSuspects() const { return !recreate_ && repairer_.has_suspects(); }
  bool Verified() const { return !recreate_ && !repairer_.has_suspects() && leftovers_.empty(); }
  size_t applied_rows() const;  // In the kernel, in all sets.
  // At most one look at what is in doubt, and what it takes to mend it.
  RepairResult Repair();
  // The same for the next rows of all that is applied.
  RepairResult Audit();
  uint64_t audits() const { return repairer_.audits(); }

  // The kernel's generation up to which all foreign changes have been told to Doubt().
  std::optional<uint32_t> ReportedGeneration() { return kernel_.ReportedGeneration(); }
  // Nothing is in doubt at that generation.
  void NoteGeneration(uint32_t generation);

  // What the kernel refused is pending again.
  void RetryRejected();
  size_t rejected_services() const { return rejected_.size(); }

  // Objects that changed without a commit are saved, too.
  void SaveObjects();
  // Nothing can be saved at the moment.
  bool SavingFails() const { return log_ != nullptr && !log_->status().error.empty(); }
  // Tries again if it is time to.
  void RetrySaving() {
    if (log_ != nullptr && log_->needs_everything()) RewriteLog();
  }

  // The state is complete: what a former life had and nobody asked for can be forgotten.
  void ForgetPreviousRun() {
    if (!HasLeftovers()) memory_.Forget(numbers_);
  }

  // True when there is something to write.
  bool Pending() const;

  // At most one transaction, of the Services that changed first. It stops taking more once it has
  // `element_limit` elements; one Service is never split.
  SyncResult Sync(size_t element_limit);

  // Returns true while elements that packets can no longer reach wait for their deletion. The loop
  // deletes them as soon as the batches are answered. No Repair() and no Audit() until then.
  bool HasLeftovers() const { return !leftovers_.empty(); }
  // Deletes one portion of these elements.
  RemovalResult RemoveLeftovers();

  // Grows with every commit that changed something, also over restarts.
  uint64_t revision() const { return applied_.marker().generation; }
  const Applied& applied() const { return applied_; }

  // What the rows are made from; valid until the next call of anything else.
  ExplainContext ContextForExplain();
  // Returns the desired elements that decide about the destination of `question`. `explained` is
  // the result of Explain().
  nft::Transaction DestinationRows(const Question& question, const Explained& explained);
  // Calls check.Read() with the kernel.
  bool Compare(KernelCheck& check, std::chrono::steady_clock::duration limit);

  // Return the result of a RowReader. For tests: the duration is proportional to the state.
  nft::Transaction DesiredRows();
  nft::Transaction AppliedRows();
  nft::Transaction PendingRows();

  // What `change` would change, which applies changes to the store: nothing of it stays. Where
  // others wait to be written, it is what these add to them; their rows are made for it, too.
  DryRun Try(const std::function<void()>& change);

 private:
  friend class RowReader;
  struct SyncPlan;  // A plan with what becomes true when it is committed.
  struct FoundTables;
  class DryRunState;
  using Specs = std::array<std::shared_ptr<const nft::TableSpec>, 2>;
  using SavedRows = std::vector<std::pair<std::string, ServiceRows>>;

  nft::Transaction ReadAllRows(RowReader& reader);
  SyncPlan MakeSyncPlan(size_t element_limit);
  SyncPlan MakeRecreation(size_t element_limit, const FoundTables* found);
  void ReplaceTable(Family family, SyncPlan& sync_plan);
  bool ChangeTables(const FoundTables& found, SyncPlan& sync_plan);
  std::optional<FoundTables> ReadFoundTables();
  void ReserveGroups(const FoundElements& found);
  bool TablesAreGone() const;
  void AddAhead(SyncPlan& sync_plan);
  DesiredContext Context() { return {store_.claims(), node_, numbers_, timers_, memory_}; }
  absl::StatusOr<std::vector<nft::Element>> ReadUndisturbed(nft::SetRef set);
  absl::Status AdoptAffinity();
  bool Restore(SavedState& saved, const SavedRows& left_over);
  absl::StatusOr<AdoptedState> Verify(std::optional<uint32_t> saved_generation,
                                      uint64_t saved_ruleset);
  void CheckLeftOver();
  uint64_t RulesetDigest() const;
  void ReadPreviousTables();
  void AddDirty(SyncPlan& sync_plan, size_t element_limit);
  void ReplaceManyRanges(SyncPlan& sync_plan) const;
  bool NodeChanged() const { return node_changed_ || node_version_ != store_.node_version(); }
  NodeFacts FactsNow() const;
  void FollowNode();
  absl::Status Settle(const nft::ApplyResult& result, const Marker& attempted);
  void Undo(SyncPlan& sync_plan);
  void AddHealthCheck(const std::string& key, SyncResult& result);
  void LogAttempt(const SyncPlan& sync_plan, const Marker& marker);
  void LogOutcome(bool committed, bool complete);
  void LogRemoval();
  std::optional<uint32_t> GenerationToSave() const;
  void PutObjects();
  void RewriteLog();
  SavedTables TablesNow() const;
  void AddTimerChains(SyncPlan& sync_plan) const;
  void FreeNumbers();
  void HandleRejection(SyncPlan& sync_plan, const nft::ApplyResult& result);
  bool IsolateRejected(SyncPlan& sync_plan, const nft::ApplyResult& result);
  RepairResult ApplyRepair(absl::StatusOr<Damage> damage);
  nft::ApplyResult ApplyInParts(const nft::Transaction& transaction);

  nft::Kernel& kernel_;
  ReconcilerOptions options_;
  StateLog* log_;
  Store store_;
  Applied applied_;
  Repairer repairer_{kernel_, applied_};
  Leftovers leftovers_;
  std::vector<Number> reserved_groups_;  // Groups of unknown Services in the kernel.
  bool check_left_over_ = false;         // Elements of the previous run are suspect.
  bool outcome_open_ = false;  // The last commit is logged after its leftovers are deleted.
  Numbers numbers_;
  AffinityTimers timers_;
  AffinityMemory memory_;
  std::vector<IpAddress> interfaces_;
  bool recreate_ = true;
  bool in_place_ = false;      // Our sets are there, for the next recreation.
  size_t timers_created_ = 0;  // For so many timeouts the tables have chains.
  int rejections_ = 0;         // In a row.
  int failed_rewrites_ = 0;    // In a row.
  // The next rewrite does not read the tables, because other processes change them continuously.
  bool rewrite_unread_ = false;
  int failed_repairs_ = 0;        // In a row.
  size_t take_limit_ = SIZE_MAX;  // Services of one transaction, while one is being isolated.
  absl::flat_hash_set<std::string> health_checked_;         // Services with a healthCheckNodePort.
  absl::flat_hash_map<std::string, std::string> rejected_;  // Services, and what the kernel says.
  std::vector<std::pair<uint64_t, Finding>> rejected_findings_;  // Not told yet.
  // Every commit up to this generation was ours or left our tables alone.
  std::optional<uint32_t> known_generation_;
  NodeFacts node_;
  std::vector<IpAddress> health_check_addresses_;
  bool health_check_addresses_changed_ = false;
  bool node_changed_ = true;
  uint64_t node_version_ = 0;
  // What is there before tables of ours that are not known to be as we make them are written in
  // place: sets and chains of it that the new ones do not have go.
  std::optional<nft::TableContent> previous_tables_[2];
  bool tables_read_ = false;  // previous_tables_ are the tables as they are now.
};

}  // namespace svcmap::proxy
