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

// A batch has at most 65,536 changes.
constexpr size_t kMaxChanges = 60'000;

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
  const std::lock_guard lock(mutex_);
  ReplaceOne(resource, std::move(items));
  WakeUp();
}

size_t Mirror::ReplaceOne(Resource resource, std::vector<Item> items) {
  const uint32_t list = ++lists_[static_cast<size_t>(resource)];
  // New objects are stored before old objects are removed. Otherwise, endpoints that moved to
  // another slice would be missing for a moment.
  for (Item& item : items) {
    if (!item.change.empty()) {
      Put(resource, item.key, std::move(item.change));
    } else if (const auto kept = objects(resource).find(item.key);
               kept != objects(resource).end()) {
      kept->second.list = list;
    }
  }
  size_t removed = 0;
  for (auto object = objects(resource).begin(); object != objects(resource).end();) {
    const auto next = std::next(object);
    if (object->second.list != list && !object->second.bytes.empty()) {
      RemoveObject(resource, object);
      ++removed;
    }
    object = next;
  }
  return removed;
}

void Mirror::ReplaceAll(Lists lists, uint64_t position) {
  const std::lock_guard lock(mutex_);
  const bool was_complete = Complete();
  group_start_ = UINT64_MAX;
  size_t removed = 0;
  for (const Resource resource : kResources) {
    removed += ReplaceOne(resource, std::move(lists[static_cast<size_t>(resource)]));
  }
  EndGroup(position);
  if (was_complete && removed >= kSnapshotRemovals) snapshot_wanted_ = true;
  WakeUp();
}

void Mirror::Apply(std::vector<Change> group, uint64_t position) {
  const std::lock_guard lock(mutex_);
  group_start_ = UINT64_MAX;
  for (Change& change : group) {
    const std::string& key = change.item.key;
    if (!change.item.change.empty()) {
      Put(change.resource, key, std::move(change.item.change));
    } else if (const auto object = objects(change.resource).find(key);
               object != objects(change.resource).end()) {
      RemoveObject(change.resource, object);
    }
  }
  EndGroup(position);
  WakeUp();
}

void Mirror::EndGroup(uint64_t position) {
  position_ = position;
  uint64_t first = std::max(group_start_, snapshot_turn_ + 1);
  if (first >= last_turn_) return;  // The group has at most one waiting change.
  while (!groups_.empty() && groups_.rbegin()->second >= first) {
    first = std::min(first, groups_.rbegin()->first);
    groups_.erase(std::prev(groups_.end()));
  }
  groups_.emplace(first, last_turn_);
}

bool Mirror::IsJoined(uint64_t turn) const {
  const auto after = groups_.lower_bound(turn);
  return after != groups_.begin() && turn <= std::prev(after)->second;
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
  if (held.turn != 0) group_start_ = std::min(group_start_, held.turn);
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
  const bool waits = object.second.turn != 0;
  if (!waits) object.second.turn = ++last_turn_;
  group_start_ = std::min(group_start_, object.second.turn);
  if (waits) return;
  waiting_.emplace_hint(waiting_.end(), last_turn_, std::pair(resource, &object));
}

bool Mirror::Complete() const { return std::ranges::find(lists_, 0u) == lists_.end(); }

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
  if (std::exchange(interrupted_, false) || !woken) return Wake::kTimeout;
  return snapshot_wanted_ ? Wake::kSnapshot : Wake::kChanges;
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

std::vector<std::string> Mirror::TakeChanges(size_t max_bytes, size_t max_group_bytes) {
  std::vector<std::string> changes;
  const std::lock_guard lock(mutex_);
  if (snapshot_wanted_) return changes;
  size_t bytes = 0;
  while (!waiting_.empty() && changes.size() < kMaxChanges) {
    const auto [resource, object] = waiting_.begin()->second;
    Stored& held = object->second;
    const bool gone = held.bytes.empty();
    std::string change = gone ? Removal(resource, object->first) : held.bytes;
    bytes += change.size();
    const size_t most = IsJoined(held.turn) ? std::max(max_bytes, max_group_bytes) : max_bytes;
    if (bytes > most && !changes.empty()) break;
    changes.push_back(std::move(change));
    while (!groups_.empty() && groups_.begin()->second <= held.turn) groups_.erase(groups_.begin());
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
  groups_.clear();
  snapshot_wanted_ = false;
  for (const Resource resource : kSnapshotOrder) {
    std::erase_if(objects(resource),
                  [](const auto& object) { return object.second.bytes.empty(); });
    for (Objects::value_type& object : objects(resource)) {
      object.second.sent = false;
      object.second.turn = 0;
      Line(resource, object);
    }
  }
  snapshot_turn_ = last_turn_;
}

bool Mirror::snapshot_wanted() const {
  const std::lock_guard lock(mutex_);
  return snapshot_wanted_;
}

std::optional<uint64_t> Mirror::SentPosition() const {
  const std::lock_guard lock(mutex_);
  if (!waiting_.empty()) return std::nullopt;
  return position_;
}

Mirror::Counts Mirror::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.waiting = waiting_.size();
  return counts;
}

}  // namespace svcmap::source
