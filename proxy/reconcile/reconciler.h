// Brings the kernel to the state in the store. Each Sync() compares the rows of the changed
// Services with the applied rows and writes the difference, usually in one batch. The applied view
// changes only after the commit. The cost of a Sync depends on the size of the change.
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
#include "proxy/applied/applied.h"
#include "proxy/conntrack/tcp_endpoints.h"
#include "proxy/conntrack/udp_ports.h"
#include "proxy/desired/groups.h"
#include "proxy/desired/service.h"
#include "proxy/desired/sticky.h"
#include "proxy/diff/leftovers.h"
#include "proxy/diff/rewrite.h"
#include "proxy/explain/explain.h"
#include "proxy/explain/kernel_check.h"
#include "proxy/health/health_check.h"
#include "proxy/localhost/nodeports.h"
#include "proxy/node/nodeport_addresses.h"
#include "proxy/reconcile/row_reader.h"
#include "proxy/repair/repairer.h"
#include "proxy/saved/state_log.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct ReconcilerOptions {
  std::string node_name;
  NodePortAddresses node_port_addresses;
  RulesetOptions ruleset;
  // Whether TCP connections to endpoints that are gone are reset, unless the Service overrides it.
  bool reset_stale_tcp = false;
  // Families in which TCP nodePorts accept connections on the loopback address, by Index(Family).
  bool localhost_node_ports[2] = {};
};

struct SyncResult {
  enum class Outcome : uint8_t {
    kNothing,    // No commit was necessary.
    kCommitted,  // The changes are in the kernel.
    kFailed,     // Not committed, or outcome unknown. The Services are dirty again.
  };
  Outcome outcome = Outcome::kNothing;
  absl::Status error;      // kFailed only.
  bool recreated = false;  // A complete rewrite was committed, or failed.
  // Base chains with a wrong type, hook or priority that were created again, in nft notation.
  // Packets may have passed untranslated meanwhile.
  std::vector<std::string> replaced_chains;
  size_t elements = 0;
  std::chrono::nanoseconds duration{0};  // Duration of the commit.
  // Durations of Stage::kPlan and Stage::kSave.
  std::chrono::nanoseconds plan_duration{0};
  std::chrono::nanoseconds save_duration{0};
  // Why rules are not programmed, each with the sequence number of the change.
  std::vector<std::pair<uint64_t, Finding>> findings;
  // Current UDP ports of all synced Services. Empty after a failure.
  std::vector<std::pair<std::string, UdpPorts>> udp;
  // Current TCP endpoints of the synced Services whose TCP connections to endpoints that are gone
  // are reset. Without endpoints if the connections are no longer reset. Empty after a failure.
  std::vector<std::pair<std::string, TcpEndpoints>> tcp;
  // Synced Services that have, or had, a healthCheckNodePort. Empty after a failure.
  HealthCheckChanges health_checks;
  std::optional<std::vector<IpAddress>> health_check_addresses;  // Present if they changed (S-260).
  // Synced Services that have, or had, nodePorts on loopback addresses. Empty after a failure.
  LocalhostNodePortChanges localhost_node_ports;
  // Duration of the whole sync, including planning. 0 if there was nothing to sync. Set by the
  // loop.
  std::chrono::nanoseconds whole{0};
};

// Outcome of comparing some rows with the kernel.
struct RepairResult {
  enum class Outcome : uint8_t {
    kNothing,   // No differences.
    kRepaired,  // Differences were found and repaired.
    kRewrite,   // Too many differences. The next Sync rewrites the tables.
    kFailed,    // The kernel could not be read, or it rejected the repair.
  };
  Outcome outcome = Outcome::kNothing;
  absl::Status error;   // kFailed only.
  size_t elements = 0;  // Missing, wrong and unknown elements.
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

// The effect that changes would have.
struct DryRun {
  // Elements deleted and added, in the order of the transaction, without the marker.
  nft::Transaction rows;
  // The tables would be rewritten. `rows` contains only the differences even then.
  bool recreates = false;
  std::vector<Finding> findings;  // What would not be programmed.
  uint64_t revision = 0;          // The current revision.
};

// What a run finds at its start.
enum class AdoptedState : uint8_t {
  kNothing,   // No tables of svcmap, and no saved state.
  kUnknown,   // Tables of a previous run, but no matching saved state.
  kSaved,     // Saved state, but no matching tables. The state must be written.
  kTrusted,   // The tables match the saved state, and nf_tables has not changed since.
  kToVerify,  // The tables matched the saved state, but nf_tables has changed since.
  kUpgrade,   // The tables match the saved state, but this version has other rules.
};

class Reconciler {
 public:
  // If `log` is null, no state is saved.
  Reconciler(nft::Kernel& kernel, ReconcilerOptions options, StateLog* log = nullptr);

  Store& store() { return store_; }
  const Store& store() const { return store_; }

  // Returns null if the Node is unknown.
  const Node* ThisNode() const;

  // Sets the node's own addresses. Called when they change.
  void SetInterfaceAddresses(std::vector<IpAddress> addresses);

  // The kernel no longer matches the applied rows. The next Sync rewrites the tables.
  void Invalidate() {
    recreate_ = true;
    in_place_ = false;
  }

  // Reads the tables of a previous run and compares them with its saved state. Takes over `saved`
  // except for the objects. Unless the result is kNothing or kUnknown, the caller must apply the
  // objects to the store next. Revisions continue from the previous run's revision.
  absl::StatusOr<AdoptedState> Adopt(SavedState& saved);
  absl::StatusOr<AdoptedState> Adopt() {
    SavedState nothing;
    return Adopt(nothing);
  }

  // Another process has changed svcmap's tables. Repair() will check the changed rows.
  void MarkSuspect(const nft::ForeignChange& change) { repairer_.MarkSuspect(change); }
  bool HasSuspects() const { return !recreate_ && repairer_.has_suspects(); }
  bool Verified() const { return !recreate_ && !repairer_.has_suspects() && leftovers_.empty(); }
  size_t applied_rows() const;  // Number of applied elements in all sets.
  // Checks one portion of the suspect rows and repairs differences.
  RepairResult Repair();
  // Checks the next portion of all applied rows and repairs differences.
  RepairResult Audit();
  uint64_t audits() const { return repairer_.audits(); }

  // Returns the generation of the kernel up to which all changes by other processes were reported
  // to svcmapd. See nft::Kernel.
  std::optional<uint32_t> ReportedGeneration() { return kernel_.ReportedGeneration(); }
  // No row is suspect at this generation.
  void NoteGeneration(uint32_t generation);

  // Marks all Services that the kernel has rejected as dirty.
  void RetryRejected();
  size_t rejected_services() const { return rejected_.size(); }

  // Saves objects that changed without a commit.
  void SaveObjects();
  // Returns true if the state cannot be saved currently.
  bool SavingFails() const { return log_ != nullptr && !log_->status().error.empty(); }
  // Retries saving the state if a retry is due.
  void RetrySaving() {
    if (log_ != nullptr && log_->needs_everything()) RewriteLog();
  }

  // Forgets affinity numbers of the previous run that no Service has claimed. Call when the state
  // is complete.
  void ForgetPreviousRun() {
    if (!HasLeftovers()) memory_.Forget(numbers_);
  }

  // True when there is something to write.
  bool Pending() const;

  // Commits one plan for the Services that changed first. Adds Services until the plan has
  // `element_limit` elements. Never splits a Service. A large plan takes several transactions: the
  // first ones add elements that no packet can reach before the last one.
  SyncResult Sync(size_t element_limit);

  // Returns true while elements that packets can no longer reach wait for their deletion. The loop
  // deletes them as soon as the batches are answered. No Repair() and no Audit() until then.
  bool HasLeftovers() const { return !leftovers_.empty(); }
  // Deletes one portion of these elements.
  RemovalResult RemoveLeftovers();

  // Grows with each commit that has an effect, across restarts.
  uint64_t revision() const { return applied_.marker().generation; }
  const Applied& applied() const { return applied_; }

  // Returns the data from which rows are computed. Valid until the next call of any other function.
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

  // Returns the effect of `change`, which changes the store, and reverts it. If other changes are
  // not written yet, the result contains only what `change` adds to them.
  DryRun Try(const std::function<void()>& change);

 private:
  friend class RowReader;
  struct SyncPlan;  // A plan, and the state that becomes valid when the plan is committed.
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
  DesiredContext Context() {
    return {store_.claims(), node_, numbers_, timers_, memory_, applied_.timer_uses()};
  }
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
  bool CollidesWithOldRows(const SyncPlan& sync_plan) const;
  void Undo(SyncPlan& sync_plan);
  void AddHealthCheck(const std::string& key, SyncResult& result);
  void AddLocalhostNodePorts(const std::string& key, SyncResult& result);
  void LogAttempt(const SyncPlan& sync_plan, const Marker& marker);
  void LogOutcome(bool committed, bool complete);
  void LogRemoval();
  std::optional<uint32_t> GenerationToSave() const;
  void PutObjects();
  void RewriteLog();
  SavedTables TablesWith(const std::vector<uint32_t>& timers) const;
  RulesInUse NeededRules(int64_t more_resets, const SetCounts& more_rows) const;
  void ChangeRules(SyncPlan& sync_plan) const;
  void FreeNumbers();
  void HandleRejection(SyncPlan& sync_plan, const nft::ApplyResult& result);
  bool IsolateRejected(SyncPlan& sync_plan, const nft::ApplyResult& result);
  absl::Status RepairSourceRanges();
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
  bool outcome_open_ = false;            // The outcome of the last commit is not in the log yet.
  // The last generation whose commit had an unknown outcome. No later attempt may have the same
  // marker, because the tables may differ in leftovers.
  uint64_t unknown_generation_ = 0;
  Numbers numbers_;
  AffinityTimers timers_;
  AffinityMemory memory_;
  std::vector<IpAddress> interfaces_;
  bool recreate_ = true;
  bool in_place_ = false;     // The sets exist, so the next rewrite can keep them.
  RulesInUse rules_created_;  // Value of RulesetOptions::rules_in_use in the tables.
  int rejections_ = 0;        // Consecutive.
  int failed_rewrites_ = 0;   // Consecutive.
  // The next rewrite does not read the tables, because other processes change them continuously.
  bool rewrite_unread_ = false;
  int failed_repairs_ = 0;  // Consecutive.
  // Maximum number of Services in one transaction. Reduced to find the Service that the kernel
  // rejects.
  size_t take_limit_ = SIZE_MAX;
  absl::flat_hash_set<std::string> health_checked_;  // Services with a healthCheckNodePort.
  absl::flat_hash_set<std::string> on_localhost_;  // Services with nodePorts on loopback addresses.
  // Rejected Services and the kernel's error.
  absl::flat_hash_map<std::string, std::string> rejected_;
  // Objects of the saved state that this run does not use. Deleted from the log with the first
  // attempt.
  std::vector<std::pair<Kind, std::string>> outdated_objects_;
  std::vector<std::pair<uint64_t, Finding>> rejected_findings_;  // Not reported yet.
  // All commits up to this generation were made by svcmapd or did not change its tables.
  std::optional<uint32_t> known_generation_;
  NodeFacts node_;
  std::vector<IpAddress> health_check_addresses_;
  bool health_check_addresses_changed_ = false;
  bool node_changed_ = true;
  uint64_t node_version_ = 0;
  // Existing tables with possibly unknown content, before they are rewritten in place. Their sets
  // and chains that the new tables do not have are deleted.
  std::optional<nft::TableContent> previous_tables_[2];
  bool tables_read_ = false;  // previous_tables_ is up to date.
};

}  // namespace svcmap::proxy
