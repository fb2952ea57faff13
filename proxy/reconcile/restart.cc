// Takes over the state of the previous run, and saves the state for the next run.
#include <xxhash.h>

#include <algorithm>
#include <thread>

#include "absl/container/flat_hash_set.h"
#include "proxy/diff/removals.h"
#include "proxy/reconcile/sync_plan.h"

namespace svcmap::proxy {
namespace {

// By Index(Family). Absent if the table or its marker does not exist.
using Markers = std::array<std::optional<Marker>, 2>;

absl::StatusOr<Markers> ReadMarkers(nft::Kernel& kernel) {
  Markers markers;
  for (const Family family : kFamilies) {
    const auto element = kernel.ReadElement({family, kMarker}, MarkerKey().bytes());
    if (!element.ok()) return element.status();
    Marker marker;
    if (*element && ParseMarker((*element)->data, marker)) markers[Index(family)] = marker;
  }
  return markers;
}

bool ReserveNumbers(const Markers& markers, const Marker& marker) {
  return markers[0] == marker && markers[1] == marker;
}

// Returns the rows that the attempt replaced, for each Service that it changed.
std::vector<std::pair<std::string, ServiceRows>> ReplacedBy(
    const SavedState::Attempt& attempt,
    const std::vector<std::pair<std::string, ServiceRows>>& before) {
  absl::flat_hash_set<std::string_view> changed;
  for (const auto& [key, rows] : attempt.services) changed.insert(key);
  std::vector<std::pair<std::string, ServiceRows>> replaced;
  for (const auto& service : before) {
    if (!attempt.whole && changed.contains(service.first)) replaced.push_back(service);
  }
  return replaced;
}

nft::Transaction AllRows(const std::string& key, const ServiceRows& rows) {
  nft::Transaction transaction;
  ForEachOwnRow(key, rows, [&](const Row& row) { transaction.Add(row.view()); });
  for (const Row& row : SharedRows(rows)) transaction.Add(row.view());
  return transaction;
}

}  // namespace

absl::StatusOr<AdoptedState> Reconciler::Adopt(SavedState& saved) {
  const absl::StatusOr<Markers> markers = ReadMarkers(kernel_);
  if (!markers.ok()) return markers.status();
  // Rows that a committed attempt replaced, or that were possibly added ahead of an attempt that
  // was not committed.
  SavedRows left_over;
  bool rewritten = false;
  if (saved.attempt) {
    const bool committed = ReserveNumbers(*markers, saved.attempt->marker);
    rewritten = committed && saved.attempt->whole;
    if (committed) {
      left_over = ReplacedBy(*saved.attempt, saved.services);
    } else if (!saved.attempt->whole) {
      left_over = saved.attempt->services;
    }
    Resolve(saved, committed);
    for (auto& [key, rows] : left_over) {
      DropRowsOfOptions(RowSetCount(options_.ruleset), rows);
    }
    // The leftovers of the attempt are not checked yet.
    outcome_open_ = committed;
    if (log_ != nullptr && !committed) log_->End(false, saved.generation);
  }
  recreate_ = true;
  in_place_ = false;
  const std::optional<Marker> saved_marker = saved.marker;
  if (saved_marker && ReserveNumbers(*markers, *saved_marker)) {
    const std::optional<uint32_t> saved_generation = saved.generation;
    const uint64_t ruleset = saved.tables.ruleset;
    if (Restore(saved, left_over)) {
      // The previous run may have ended before it deleted the leftovers of its last commit. After a
      // rewrite, any element may be left over, so the tables are written again.
      in_place_ = true;
      if (rewritten) return AdoptedState::kSaved;
      const absl::StatusOr<AdoptedState> adopted = Verify(saved_generation, ruleset);
      for (const auto& [key, rows] : left_over) repairer_.MarkRowsSuspect(AllRows(key, rows));
      check_left_over_ = true;
      return adopted;
    }
  }

  Marker newest = applied_.marker();
  bool found = false;
  // True if the markers match, but the saved rows do not match the markers.
  bool newer = ReserveNumbers(*markers, saved_marker.value_or(Marker()));
  for (const std::optional<Marker>& marker : *markers) {
    if (!marker) continue;
    found = true;
    if (marker->generation > newest.generation) newest = *marker;
    newer |=
        marker != saved_marker && marker->generation >= saved_marker.value_or(Marker()).generation;
  }
  // Another process has deleted at least one table, or restored tables that are older than the
  // saved state.
  if (saved_marker && !newer) {
    if (!Restore(saved, {})) applied_.Advance(Plan(applied_.shared()), true, {}, {}, *saved_marker);
    // The saved numbers keep clients' affinity records valid.
    for (const Family family : kFamilies) {
      const absl::StatusOr<bool> there = kernel_.HasTable(family);
      if (!there.ok()) return there.status();
      in_place_ = *there && (in_place_ || family == kFamilies[0]);
    }
    return AdoptedState::kSaved;
  }
  // The objects stay in the log until the first attempt: if another version of svcmapd is started
  // before, the tables still match its saved state, and without objects it would delete all
  // Services.
  for (const SavedState::Object& object : saved.objects) {
    outdated_objects_.emplace_back(object.kind, object.key);
  }
  applied_.Advance(Plan(applied_.shared()), true, {}, {}, newest);
  if (!found) return AdoptedState::kNothing;
  const absl::Status status = AdoptAffinity();
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  in_place_ = status.ok();  // kNotFound: a version without session affinity created the tables.
  return AdoptedState::kUnknown;
}

// The log describes only the last attempt. Therefore, checks the elements that the last attempt of
// the previous run may have left over, before the first attempt of this run.
void Reconciler::CheckLeftOver() {
  constexpr int kMaxFailures = 3;
  if (!std::exchange(check_left_over_, false)) return;
  for (int failures = 0; !recreate_ && repairer_.has_suspect_rows() && failures < kMaxFailures;) {
    if (Repair().outcome == RepairResult::Outcome::kFailed) ++failures;
  }
}

// Trusts the saved rows if nf_tables has not changed since.
absl::StatusOr<AdoptedState> Reconciler::Verify(std::optional<uint32_t> saved_generation,
                                                uint64_t saved_ruleset) {
  if (saved_ruleset != RulesetDigest()) return AdoptedState::kUpgrade;
  recreate_ = false;
  const absl::StatusOr<uint32_t> generation = kernel_.Generation();
  if (!generation.ok()) return generation.status();
  if (saved_generation == *generation) {
    known_generation_ = *generation;
    return AdoptedState::kTrusted;
  }
  repairer_.MarkAllSuspect();
  return AdoptedState::kToVerify;
}

// Reads a set, and retries while commits of other processes interrupt the dump. May block, because
// svcmapd has nothing else to do at start.
absl::StatusOr<std::vector<nft::Element>> Reconciler::ReadUndisturbed(nft::SetRef set) {
  constexpr int kAttempts = 100;
  absl::StatusOr<std::vector<nft::Element>> elements;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    elements = kernel_.ReadSet(set);
    if (!absl::IsUnavailable(elements.status())) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(attempt, 20)));
  }
  return elements;
}

// Remembers the numbers that clients' affinity records use.
absl::Status Reconciler::AdoptAffinity() {
  for (const Family family : kFamilies) {
    for (uint8_t set = 0; set < RowSetCount(options_.ruleset); ++set) {
      if (!IsStickyEndpoint(set)) continue;
      const absl::StatusOr<std::vector<nft::Element>> elements = ReadUndisturbed({family, set});
      // The previous run may have had other options.
      if (absl::IsNotFound(elements.status()) && set >= kSetCount) continue;
      if (!elements.ok()) return elements.status();
      memory_.Remember(family, *elements, numbers_);
    }
  }
  return absl::OkStatus();
}

// Returns false if the marker in the kernel does not belong to the saved rows. `left_over` are rows
// that may be in the kernel, in addition to the saved rows.
bool Reconciler::Restore(SavedState& saved, const SavedRows& left_over) {
  std::array<std::array<std::vector<uint32_t>, 2>, 3> numbers;  // By pool and family.
  std::vector<Number> unused;
  absl::flat_hash_set<Number> used;
  for (const auto& [key, rows] : saved.services) {
    for (const Number& number : NumbersOf(rows)) {
      numbers[static_cast<size_t>(number.pool)][Index(number.family)].push_back(number.value);
      if (!left_over.empty()) used.insert(number);
    }
  }
  for (const auto& [key, rows] : left_over) {
    for (const Number& number : NumbersOf(rows)) {
      if (!used.insert(number).second) continue;
      numbers[static_cast<size_t>(number.pool)][Index(number.family)].push_back(number.value);
      unused.push_back(number);
    }
  }
  if (!applied_.Restore(std::move(saved.services), std::move(saved.node_rows), *saved.marker)) {
    return false;
  }
  applied_.ForgetOptions(RowSetCount(options_.ruleset));
  for (const NumberPool pool :
       {NumberPool::kGroups, NumberPool::kStickyGroups, NumberPool::kStickyPorts}) {
    for (const Family family : kFamilies) {
      std::vector<uint32_t>& values = numbers[static_cast<size_t>(pool)][Index(family)];
      std::sort(values.begin(), values.end());
      for (const uint32_t value : numbers_.Of(pool, family).Restore(values)) {
        unused.push_back({pool, family, value});
      }
    }
  }
  // Elements of the previous run may still use these numbers. A client's affinity record would lead
  // to the endpoint of another Service.
  leftovers_.Add({}, unused);
  timers_.Restore(saved.tables.timers);
  options_.ruleset.rules_in_use = rules_created_ = NeededRules(0, {});
  // The next Sync compares the node rows, because they also depend on the options of this run.
  node_version_ = UINT64_MAX;
  Specs specs;
  for (const Family family : kFamilies) {
    specs[Index(family)] =
        std::make_shared<nft::TableSpec>(MakeTable(family, options_.ruleset, timers_.seconds()));
  }
  repairer_.TablesWritten(std::move(specs));
  // Mark all Services as dirty, so that Services without an object are deleted from the kernel.
  for (const auto& [key, rows] : applied_.services()) store_.MarkDirty(key, 0);
  return true;
}

// Digest of the sets, chains and rules. Affinity timeouts are not included, because they are saved
// separately.
uint64_t Reconciler::RulesetDigest() const {
  uint64_t digest = 0;
  for (const Family family : kFamilies) {
    const nft::TableSpec table = MakeTable(family, options_.ruleset);
    std::string text;
    for (const nft::SetSpec& set : table.sets) {
      text += set.name;
      for (const auto* fields : {&set.key, &set.data}) {
        for (const nft::Field field : *fields)
          text += ' ' + std::to_string(static_cast<int>(field));
        text += ':';
      }
      text += set.typeof_text + '\n';
    }
    for (const nft::ChainSpec& chain : table.chains) text += chain.name + '\n';
    for (const nft::RuleSpec& rule : table.rules) text += rule.chain + ' ' + rule.text + '\n';
    digest = XXH3_64bits_withSeed(text.data(), text.size(), digest);
  }
  return digest;
}

void Reconciler::ReadPreviousTables() {
  tables_read_ = true;
  for (const Family family : kFamilies) {
    auto content = kernel_.ReadTable(family);
    tables_read_ &= content.ok();
    previous_tables_[Index(family)] = content.ok() ? *std::move(content) : std::nullopt;
  }
}

void Reconciler::SaveObjects() {
  if (log_ == nullptr) return;
  PutObjects();
  log_->Flush();
}

void Reconciler::PutObjects() {
  for (const auto& [kind, key] : store_.TakeTouched()) {
    const std::string* message = store_.FindMessage(kind, key);
    if (message != nullptr) {
      log_->PutObject(kind, key, *message);
    } else {
      log_->RemoveObject(kind, key);
    }
  }
}

SavedTables Reconciler::TablesWith(const std::vector<uint32_t>& timers) const {
  return {.timers = timers, .ruleset = RulesetDigest()};
}

void Reconciler::LogAttempt(const SyncPlan& sync_plan, const Marker& marker) {
  if (log_ == nullptr) return;
  if (std::exchange(outcome_open_, false)) log_->End(true, std::nullopt);
  if (log_->needs_everything()) RewriteLog();
  PutObjects();
  for (const auto& [kind, key] : std::exchange(outdated_objects_, {})) {
    if (store_.FindMessage(kind, key) == nullptr) log_->RemoveObject(kind, key);
  }
  SavedCommit commit{
      .marker = marker, .whole = sync_plan.recreate, .node_rows = &sync_plan.node_rows};
  for (const auto& [key, rows] : sync_plan.services) {
    if (!sync_plan.recreate || !rows.empty()) commit.services.emplace_back(key, &rows);
  }
  SavedTables tables;
  if (sync_plan.specs[0] != nullptr) {
    tables = TablesWith(timers_.seconds());
    commit.tables = &tables;
  }
  if (sync_plan.recreate) {
    absl::flat_hash_set<std::string_view> changed;
    for (const auto& [key, rows] : sync_plan.services) changed.insert(key);
    for (const auto& [key, rows] : applied_.services()) {
      if (!changed.contains(key)) commit.services.emplace_back(key, &rows);
    }
  }
  log_->Begin(commit);
}

// If elements are left over, logs the outcome after their deletion. If the log ends without the
// outcome, the next run searches for leftovers.
void Reconciler::LogOutcome(bool committed, bool complete) {
  if (committed && known_generation_) ++*known_generation_;
  outcome_open_ = committed && !complete;
  if (log_ == nullptr || outcome_open_) return;
  log_->End(committed, GenerationToSave());
}

// Returns nullopt while elements may be left over, so that the next run compares all rows.
std::optional<uint32_t> Reconciler::GenerationToSave() const {
  return HasLeftovers() || repairer_.has_suspects() ? std::nullopt : known_generation_;
}

void Reconciler::LogRemoval() {
  if (log_ == nullptr) return;
  const std::optional<uint32_t> generation = GenerationToSave();
  if (std::exchange(outcome_open_, false)) {
    log_->End(true, generation);
  } else if (generation) {
    log_->NoteGeneration(*generation);
  }
}

// Writes the complete state after the log was disabled by an error.
void Reconciler::RewriteLog() {
  outcome_open_ = false;
  outdated_objects_.clear();
  store_.TakeTouched();
  const SavedTables tables = TablesWith(timers_.committed());
  SavedCommit commit{.marker = applied_.marker(),
                     .whole = true,
                     .node_rows = &applied_.node_rows(),
                     .tables = &tables};
  for (const auto& [key, rows] : applied_.services()) commit.services.emplace_back(key, &rows);
  const auto objects = [this](const StateLog::PutObjectFn& put) {
    store_.ForEachService([&](const std::string& key, const ServiceEntry& entry) {
      if (entry.service) put(Kind::kService, key, entry.service->message);
    });
    store_.ForEachSlice(
        [&](const auto& slice) { put(Kind::kEndpointSlice, slice->key, slice->message); });
    for (const auto& [key, node] : store_.nodes()) put(Kind::kNode, key, node->message);
    for (const auto& [key, cidr] : store_.service_cidrs()) {
      put(Kind::kServiceCidr, key, cidr->message);
    }
  };
  log_->Rewrite(objects, recreate_ ? nullptr : &commit, GenerationToSave());
}

}  // namespace svcmap::proxy
