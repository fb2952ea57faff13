#include "proxy/reconcile/journal.h"

#include <utility>

namespace svcmap::proxy {

Journal::Journal(ObjectWriter* disk, Store& store) : disk_(disk), store_(store) {
  if (disk_ != nullptr) store_.KeepTouched();
}

void Journal::Write(uint64_t revision) {
  if (disk_ == nullptr) return;
  SavedBatch batch{.everything = outdated_ || disk_->needs_everything(),
                   .partial = partial_,
                   .revision = revision};
  const auto add = [&](Kind kind, const std::string& key) {
    const Change stored = store_.Stored(kind, key);
    SavedObject& object = batch.objects.emplace_back();
    object = {.kind = kind, .key = key, .first_seen = stored.first_seen.value_or(0)};
    if (const std::string* message = stored.message()) object.message = *message;
  };
  const auto touched = store_.TakeTouched();
  if (batch.everything) {
    outdated_ = false;
    store_.ForEachObject(add);
  } else {
    for (const auto& [kind, key] : touched) add(kind, key);
  }
  disk_->Write(std::move(batch));
}

bool Journal::Await() { return disk_ != nullptr && disk_->Await() && !outdated_; }

void Journal::Retry(uint64_t revision) {
  if (disk_ != nullptr && disk_->needs_everything()) Write(revision);
}

}  // namespace svcmap::proxy
