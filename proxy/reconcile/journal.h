// Saves the state for the next run: received objects, the rows of each commit before the commit,
// and its outcome afterwards. Also records up to which generation of nf_tables no other process has
// changed svcmap's tables.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/applied/applied.h"
#include "proxy/reconcile/numbering.h"
#include "proxy/reconcile/sync_plan.h"
#include "proxy/ruleset/table.h"
#include "proxy/saved/state_log.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

// Digest of the sets, chains and rules of both tables. Affinity timeouts are not included, because
// they are saved separately.
uint64_t RulesetDigest(const RulesetOptions& ruleset);

// How well the tables in the kernel are known when the state is saved.
enum class Trust : uint8_t {
  kUnknown,    // The tables may differ from the applied rows.
  kUnchecked,  // The tables contain the applied rows, except for suspect rows and leftovers.
  kChecked,    // The tables contain exactly the applied rows.
};

class Journal {
 public:
  // If `log` is null, nothing is saved.
  Journal(StateLog* log, Store& store, const Applied& applied, Numbering& numbering,
          const RulesetOptions& ruleset);

  // Saves objects that changed without a commit.
  void SaveObjects();

  // The stored objects are a part of the first snapshot, which has not ended.
  void SetPartial(bool partial) {
    if (log_ != nullptr) log_->SetPartial(partial);
  }

  // Saves the changed objects and the plan, before the plan is committed.
  void Begin(const SyncPlan& sync_plan, const Marker& marker, Trust trust);
  // Saves the outcome of the plan. If the plan leaves rows that must be deleted (leftovers, or rows
  // ahead of a plan that failed), the outcome is saved when they are deleted: if the log ends
  // without an outcome, the next run searches for them.
  void End(bool committed, bool leaves_rows, Trust trust);
  // The last of these rows were deleted.
  void Removed(Trust trust);

  // Writes outcomes that are not written yet. Otherwise, the next Begin writes them.
  void Flush() {
    if (log_ != nullptr) log_->Flush();
  }

  // Call with the outcome of the previous run's last attempt. No plan may begin before the rows
  // that the attempt may have left are checked, because the log describes only the last attempt.
  void AdoptAttempt(bool committed) { open_outcome_ = committed; }
  // Deletes these objects of the previous run from the log with the first plan, unless they were
  // received again. Until the first plan, an operator may start the previous version again, and
  // that version needs the objects: it would delete all Services without objects.
  void Outdate(const std::vector<SavedState::Object>& objects);

  // Saves everything if an error had disabled the log and a retry is due.
  void Retry(Trust trust) {
    if (log_ != nullptr && log_->needs_everything()) Rewrite(trust);
  }
  bool fails() const { return log_ != nullptr && !log_->status().error.empty(); }

  // svcmapd has made a commit.
  void CountCommit() {
    if (known_generation_) ++*known_generation_;
  }
  // All commits up to this generation were made by svcmapd or did not change its tables.
  void SetGeneration(uint32_t generation) { known_generation_ = generation; }
  // As SetGeneration, and saves the generation. The tables must be checked.
  void NoteGeneration(uint32_t generation);

 private:
  void PutObjects();
  void Rewrite(Trust trust);
  SavedTables TablesWith(const std::vector<uint32_t>& timers) const;
  std::optional<uint32_t> GenerationToSave(Trust trust) const;

  StateLog* const log_;
  Store& store_;
  const Applied& applied_;
  Numbering& numbering_;
  const RulesetOptions& ruleset_;
  // Whether the last plan was committed. Absent if the log contains this outcome.
  std::optional<bool> open_outcome_;
  std::vector<std::pair<Kind, std::string>> outdated_objects_;
  std::optional<uint32_t> known_generation_;
};

}  // namespace svcmap::proxy
