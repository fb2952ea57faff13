#include "tests/support/kube_store.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace svcmap::testing {
namespace {

constexpr size_t kEventsKept = 10000;  // Of each collection.

// Returns true if field selectors of the collection support `field`.
bool HasField(Collection collection, const std::string& field) {
  if (field == "metadata.name") return true;
  if (field == "metadata.namespace") return NamesOf(collection).namespaced;
  return collection == Collection::kServices && (field == "spec.clusterIP" || field == "spec.type");
}

std::string FieldOf(const v1::Object& object, const std::string& field) {
  if (field == "metadata.name") return MetadataOf(object).name();
  if (field == "metadata.namespace") return MetadataOf(object).namespace_();
  return field == "spec.type" ? object.service().spec().type()
                              : object.service().spec().cluster_ip();
}

}  // namespace

std::string KeyOf(const v1::Object& object) {
  const v1::ObjectMeta& meta = MetadataOf(object);
  return meta.namespace_().empty() ? meta.name()
                                   : absl::StrCat(meta.namespace_(), "/", meta.name());
}

StoredObject::StoredObject(v1::Object object, uint64_t version)
    : object_(std::move(object)), item_(EncodeItem(object_, version)) {}

absl::StatusOr<std::vector<KubeSelector::Term>> KubeSelector::ParseTerms(const std::string& text) {
  std::vector<Term> terms;
  for (const auto part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::string term(part);
    if (term.find_first_of(" ()<>") != std::string::npos) {
      return absl::InvalidArgumentError("unable to parse requirement: \"" + term + "\"");
    }
    const size_t equal = term.find('=');
    if (equal == std::string::npos) {
      terms.push_back(term[0] == '!' ? Term{Term::Kind::kAbsent, term.substr(1)}
                                     : Term{Term::Kind::kPresent, term});
      continue;
    }
    const bool negative = equal > 0 && term[equal - 1] == '!';
    const size_t value = term.find_first_not_of('=', equal);
    terms.push_back({negative ? Term::Kind::kNotEqual : Term::Kind::kEqual,
                     term.substr(0, equal - negative),
                     value == std::string::npos ? "" : term.substr(value)});
  }
  return terms;
}

absl::StatusOr<KubeSelector> KubeSelector::Parse(Collection collection, const std::string& labels,
                                                 const std::string& fields) {
  KubeSelector selector;
  auto label_terms = ParseTerms(labels);
  if (!label_terms.ok()) return label_terms.status();
  auto field_terms = ParseTerms(fields);
  if (!field_terms.ok()) return field_terms.status();
  for (const Term& term : *field_terms) {
    if (HasField(collection, term.key)) continue;
    return absl::InvalidArgumentError("field label not supported: " + term.key);
  }
  selector.labels_ = *std::move(label_terms);
  selector.fields_ = *std::move(field_terms);
  return selector;
}

bool KubeSelector::Matches(const v1::Object& object) const {
  const auto& labels = MetadataOf(object).labels();
  return std::all_of(labels_.begin(), labels_.end(),
                     [&](const Term& term) {
                       const auto found = labels.find(term.key);
                       const bool there = found != labels.end();
                       switch (term.kind) {
                         case Term::Kind::kPresent:
                           return there;
                         case Term::Kind::kAbsent:
                           return !there;
                         case Term::Kind::kEqual:
                           return there && found->second == term.value;
                         case Term::Kind::kNotEqual:
                           break;
                       }
                       return !there || found->second != term.value;
                     }) &&
         std::all_of(fields_.begin(), fields_.end(), [&](const Term& term) {
           return (FieldOf(object, term.key) == term.value) == (term.kind == Term::Kind::kEqual);
         });
}

void KubeStore::Put(const v1::Object& object) {
  const std::lock_guard lock(mutex_);
  Kept& kept = kept_[CollectionOf(object)];
  StoredObjectPtr& slot = kept.objects[KeyOf(object)];
  if (slot != nullptr &&
      google::protobuf::util::MessageDifferencer::Equals(slot->object(), object)) {
    return;
  }
  Event event{.version = ++version_};
  if (slot != nullptr) event.before = std::make_shared<StoredObject>(slot->object(), version_);
  event.after = std::make_shared<StoredObject>(object, version_);
  slot = event.after;
  Log(kept, std::move(event));
}

bool KubeStore::Remove(Collection collection, const std::string& key) {
  const std::lock_guard lock(mutex_);
  Kept& kept = kept_[collection];
  const auto found = kept.objects.find(key);
  if (found == kept.objects.end()) return false;
  Event event{.version = ++version_};
  event.before = std::make_shared<StoredObject>(found->second->object(), version_);
  kept.objects.erase(found);
  Log(kept, std::move(event));
  return true;
}

void KubeStore::Log(Kept& kept, Event event) {
  kept.events.push_back(std::move(event));
  Trim(kept);
  changed_.notify_all();
}

void KubeStore::Trim(Kept& kept) {
  while (kept.events.size() > kEventsKept) {
    kept.floor = kept.events.front().version;
    kept.events.pop_front();
  }
}

StoredObjectPtr KubeStore::Get(Collection collection, const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto kept = kept_.find(collection);
  if (kept == kept_.end()) return nullptr;
  const auto found = kept->second.objects.find(key);
  return found == kept->second.objects.end() ? nullptr : found->second;
}

uint64_t KubeStore::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

KubeStore::Snapshot KubeStore::List(Collection collection) const {
  const std::lock_guard lock(mutex_);
  Snapshot snapshot{.version = version_};
  if (const auto kept = kept_.find(collection); kept != kept_.end()) {
    for (const auto& [key, object] : kept->second.objects) snapshot.objects.push_back(object);
  }
  return snapshot;
}

absl::StatusOr<std::vector<KubeStore::Event>> KubeStore::EventsAfter(Collection collection,
                                                                     uint64_t version) const {
  const std::lock_guard lock(mutex_);
  const auto kept = kept_.find(collection);
  std::vector<Event> events;
  if (kept == kept_.end()) return events;
  if (version < kept->second.floor) {
    return absl::OutOfRangeError(
        absl::StrCat("too old resource version: ", version, " (", kept->second.floor, ")"));
  }
  const std::deque<Event>& all = kept->second.events;
  const auto first =
      std::upper_bound(all.begin(), all.end(), version,
                       [](uint64_t number, const Event& event) { return number < event.version; });
  events.assign(first, all.end());
  return events;
}

uint64_t KubeStore::WaitForMore(uint64_t seen, std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return version_ + wakes_ != seen; });
  return version_ + wakes_;
}

void KubeStore::Wake() {
  const std::lock_guard lock(mutex_);
  ++wakes_;
  changed_.notify_all();
}

void KubeStore::ForgetEvents() {
  const std::lock_guard lock(mutex_);
  for (auto& [collection, kept] : kept_) {
    kept.events.clear();
    kept.floor = version_;
  }
}

}  // namespace svcmap::testing
