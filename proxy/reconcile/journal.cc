#include "proxy/reconcile/journal.h"

namespace svcmap::proxy {

Journal::Journal(ObjectWriter* disk, Store& store) : disk_(disk), store_(store) {
  if (disk_ != nullptr) store_.KeepTouched();
}

void Journal::SetPartial(bool partial) {
  if (disk_ != nullptr) disk_->SetPartial(partial);
}

void Journal::Write(uint64_t revision) {
  if (disk_ == nullptr) return;
  if (outdated_ || disk_->needs_everything()) return Rewrite(revision);
  for (const auto& [kind, key] : store_.TakeTouched()) {
    const std::string* message = store_.FindMessage(kind, key);
    if (message != nullptr) {
      disk_->Put(kind, key, *message, store_.FirstSeen(kind, key));
    } else {
      disk_->Remove(kind, key);
    }
  }
  disk_->Write(revision);
}

bool Journal::Await() { return disk_ != nullptr && disk_->Await() && !outdated_; }

void Journal::Retry(uint64_t revision) {
  if (disk_ != nullptr && disk_->needs_everything()) Rewrite(revision);
}

void Journal::Rewrite(uint64_t revision) {
  outdated_ = false;
  store_.TakeTouched();
  disk_->Rewrite(
      [this](const ObjectWriter::PutFn& put) {
        store_.ForEachService([&](const std::string& key, const ServiceEntry& entry) {
          if (entry.service) put(Kind::kService, key, entry.service->message, entry.first_seen);
        });
        store_.ForEachSlice(
            [&](const auto& slice) { put(Kind::kEndpointSlice, slice->key, slice->message, 0); });
        for (const auto& [key, node] : store_.nodes()) put(Kind::kNode, key, node->message, 0);
        for (const auto& [key, cidr] : store_.service_cidrs()) {
          put(Kind::kServiceCidr, key, cidr->message, 0);
        }
      },
      revision);
}

}  // namespace svcmap::proxy
