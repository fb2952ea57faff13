#include "proxy/reconcile/journal.h"

#include <xxhash.h>

#include <string_view>

#include "absl/container/flat_hash_set.h"

namespace svcmap::proxy {
namespace {

// Adds the rows of a plan, and of all other Services if the plan is a rewrite.
void AddServices(const SyncPlan& sync_plan, const Applied& applied, SavedCommit& commit) {
  for (const auto& [key, rows] : sync_plan.services) {
    if (!sync_plan.rewrite || !rows.empty()) commit.services.emplace_back(key, &rows);
  }
  if (!sync_plan.rewrite) return;
  const absl::flat_hash_set<std::string_view> changed = sync_plan.ChangedServices();
  for (const auto& [key, rows] : applied.services()) {
    if (!changed.contains(key)) commit.services.emplace_back(key, &rows);
  }
}

}  // namespace

uint64_t RulesetDigest(const RulesetOptions& ruleset) {
  uint64_t digest = 0;
  for (const Family family : kFamilies) {
    const nft::TableSpec table = MakeTable(family, ruleset);
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

Journal::Journal(StateLog* log, Store& store, const Applied& applied, Numbering& numbering,
                 const RulesetOptions& ruleset)
    : log_(log), store_(store), applied_(applied), numbering_(numbering), ruleset_(ruleset) {
  if (log_ != nullptr) store_.KeepTouched();
}

void Journal::SaveObjects() {
  if (log_ == nullptr) return;
  PutObjects();
  log_->Flush();
}

void Journal::PutObjects() {
  for (const auto& [kind, key] : store_.TakeTouched()) {
    const std::string* message = store_.FindMessage(kind, key);
    if (message != nullptr) {
      log_->PutObject(kind, key, *message, store_.FirstSeen(kind, key));
    } else {
      log_->RemoveObject(kind, key);
    }
  }
}

SavedTables Journal::TablesWith(const std::vector<uint32_t>& timers) const {
  return {.timers = timers, .ruleset = RulesetDigest(ruleset_)};
}

void Journal::Begin(const SyncPlan& sync_plan, const Marker& marker, Trust trust) {
  if (log_ == nullptr) return;
  if (const auto committed = std::exchange(open_outcome_, std::nullopt)) {
    log_->End(*committed, std::nullopt);
  }
  if (log_->needs_everything()) Rewrite(trust);
  PutObjects();
  for (const auto& [kind, key] : std::exchange(outdated_objects_, {})) {
    if (store_.FindMessage(kind, key) == nullptr) log_->RemoveObject(kind, key);
  }
  SavedCommit commit{.marker = marker,
                     .whole = sync_plan.rewrite,
                     .node_rows = sync_plan.node_rows ? &*sync_plan.node_rows : nullptr,
                     .next_numbers = numbering_.numbers.Next()};
  AddServices(sync_plan, applied_, commit);
  SavedTables tables;
  if (sync_plan.specs[0] != nullptr) {
    tables = TablesWith(numbering_.timers.seconds());
    commit.tables = &tables;
  }
  log_->Begin(commit);
}

void Journal::End(bool committed, bool leaves_rows, Trust trust) {
  if (committed) CountCommit();
  if (leaves_rows) {
    open_outcome_ = committed;
  } else if (log_ != nullptr) {
    log_->End(committed, GenerationToSave(trust));
  }
}

void Journal::Removed(Trust trust) {
  if (log_ == nullptr) return;
  const std::optional<uint32_t> generation = GenerationToSave(trust);
  if (const auto committed = std::exchange(open_outcome_, std::nullopt)) {
    log_->End(*committed, generation);
  } else if (generation) {
    log_->Flush();
    log_->NoteGeneration(*generation);
  }
}

void Journal::Outdate(const std::vector<SavedState::Object>& objects) {
  for (const SavedState::Object& object : objects) {
    outdated_objects_.emplace_back(object.kind, object.key);
  }
}

void Journal::NoteGeneration(uint32_t generation) {
  if (known_generation_ == generation && !open_outcome_) return;
  known_generation_ = generation;
  Removed(Trust::kChecked);
}

// Returns nullopt while rows are suspect or left over, so that the next run compares all rows.
std::optional<uint32_t> Journal::GenerationToSave(Trust trust) const {
  return trust == Trust::kChecked ? known_generation_ : std::nullopt;
}

void Journal::Rewrite(Trust trust) {
  open_outcome_.reset();
  outdated_objects_.clear();
  store_.TakeTouched();
  const SavedTables tables = TablesWith(numbering_.timers.committed());
  SavedCommit commit{.marker = applied_.marker(),
                     .whole = true,
                     .node_rows = &applied_.node_rows(),
                     .tables = &tables,
                     .next_numbers = numbering_.numbers.Next()};
  for (const auto& [key, rows] : applied_.services()) commit.services.emplace_back(key, &rows);
  const auto objects = [this](const StateLog::PutObjectFn& put) {
    store_.ForEachService([&](const std::string& key, const ServiceEntry& entry) {
      if (entry.service) put(Kind::kService, key, entry.service->message, entry.first_seen);
    });
    store_.ForEachSlice(
        [&](const auto& slice) { put(Kind::kEndpointSlice, slice->key, slice->message, 0); });
    for (const auto& [key, node] : store_.nodes()) put(Kind::kNode, key, node->message, 0);
    for (const auto& [key, cidr] : store_.service_cidrs()) {
      put(Kind::kServiceCidr, key, cidr->message, 0);
    }
  };
  log_->Rewrite(objects, trust == Trust::kUnknown ? nullptr : &commit, GenerationToSave(trust));
}

}  // namespace svcmap::proxy
