#include "api/source/mirror.h"

#include <algorithm>

#include "api/convert/fields.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::source {
namespace {

// EndpointSlices come before Services, because a Service without EndpointSlices rejects
// connections. ServiceCIDRs come last, because packets to unused addresses in their ranges are
// dropped.
constexpr std::array kSnapshotOrder = {Resource::kNode, Resource::kEndpointSlices,
                                       Resource::kServices, Resource::kServiceCidrs};
static_assert(kSnapshotOrder.size() == kResources.size());

std::string Removal(Resource resource, const std::string& key) {
  v1::Change change;
  v1::ObjectRef& ref = *change.mutable_remove();
  ref.set_kind(KindOf(resource).proto);
  const size_t slash = key.find('/');
  if (slash == std::string::npos) {
    ref.set_name(key);
  } else {
    ref.set_namespace_(key.substr(0, slash));
    ref.set_name(key.substr(slash + 1));
  }
  return api::Serialize(change);
}

}  // namespace

void Mirror::Replace(Resource resource, std::vector<Item> items) {
  std::vector<std::pair<std::string, std::string>> named;
  named.reserve(items.size());
  for (Item& item : items) {
    named.emplace_back(std::move(item.key), std::move(item.change));
  }

  const std::lock_guard lock(mutex_);
  const uint32_t list = ++lists_[static_cast<size_t>(resource)];
  // New objects are stored before old objects are removed. Otherwise, endpoints that moved to
  // another slice would be missing for a moment.
  for (auto& [key, bytes] : named) Put(resource, key, std::move(bytes));
  for (auto object = objects(resource).begin(); object != objects(resource).end();) {
    const auto next = std::next(object);
    if (object->second.list != list) RemoveObject(resource, object);
    object = next;
  }
  WakeUp();
}

void Mirror::Upsert(Resource resource, const Item& item) {
  const std::lock_guard lock(mutex_);
  Put(resource, item.key, item.change);
  WakeUp();
}

void Mirror::Remove(Resource resource, const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto object = objects(resource).find(key);
  if (object == objects(resource).end()) return;
  RemoveObject(resource, object);
  WakeUp();
}

void Mirror::Put(Resource resource, const std::string& key, std::string bytes) {
  const auto object = objects(resource).try_emplace(key).first;
  Stored& held = object->second;
  held.list = lists_[static_cast<size_t>(resource)];
  if (held.bytes == bytes) return;
  if (held.bytes.empty()) ++counts_.objects;
  counts_.bytes += bytes.size() - held.bytes.size();
  held.bytes = std::move(bytes);
  Line(resource, *object);
}

void Mirror::RemoveObject(Resource resource, Objects::iterator object) {
  Stored& held = object->second;
  if (held.bytes.empty()) return;  // Already removed.
  --counts_.objects;
  counts_.bytes -= held.bytes.size();
  if (held.sent) {
    held.bytes = std::string();
    Line(resource, *object);
  } else {
    waiting_.erase(held.turn);
    objects(resource).erase(object);
  }
}

void Mirror::Line(Resource resource, Objects::value_type& object) {
  if (object.second.turn != 0) return;
  object.second.turn = ++last_turn_;
  waiting_.emplace_hint(waiting_.end(), last_turn_, std::pair(resource, &object));
}

bool Mirror::Complete() const {
  return std::find(lists_.begin(), lists_.end(), 0u) == lists_.end();
}

void Mirror::WakeUp() {
  if (!waiting_.empty() && Complete()) changed_.notify_all();
}

bool Mirror::complete() const {
  const std::lock_guard lock(mutex_);
  return Complete();
}

Mirror::Wake Mirror::Wait(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const bool woken = changed_.wait_until(lock, deadline, [this] {
    return ended_ || interrupted_ || (!waiting_.empty() && Complete());
  });
  if (ended_) return Wake::kEnded;
  return std::exchange(interrupted_, false) || !woken ? Wake::kTimeout : Wake::kChanges;
}

void Mirror::End() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void Mirror::Interrupt() {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
  changed_.notify_all();
}

std::vector<std::string> Mirror::TakeChanges(size_t max_bytes) {
  std::vector<std::string> changes;
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  while (!waiting_.empty()) {
    const auto [resource, object] = waiting_.begin()->second;
    Stored& held = object->second;
    const bool gone = held.bytes.empty();
    std::string change = gone ? Removal(resource, object->first) : held.bytes;
    bytes += change.size();
    if (bytes > max_bytes && !changes.empty()) break;
    changes.push_back(std::move(change));
    waiting_.erase(waiting_.begin());
    held.turn = 0;
    held.sent = true;
    if (gone) objects(resource).erase(objects(resource).find(object->first));
  }
  return changes;
}

void Mirror::StartSnapshot() {
  const std::lock_guard lock(mutex_);
  waiting_.clear();
  for (const Resource resource : kSnapshotOrder) {
    std::erase_if(objects(resource),
                  [](const auto& object) { return object.second.bytes.empty(); });
    for (Objects::value_type& object : objects(resource)) {
      object.second.sent = false;
      object.second.turn = 0;
      Line(resource, object);
    }
  }
}

bool Mirror::AllSent() const {
  const std::lock_guard lock(mutex_);
  return waiting_.empty();
}

Mirror::Counts Mirror::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.waiting = waiting_.size();
  return counts;
}

}  // namespace svcmap::source
