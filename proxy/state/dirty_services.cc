#include "proxy/state/dirty_services.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace svcmap::proxy {
namespace {

void TakeEarlier(DirtyService::FirstChanges& first, const DirtyService::FirstChanges& other) {
  for (size_t i = 0; i < kSources; ++i) first[i] = std::min(first[i], other[i]);
}

}  // namespace

void DirtyServices::Mark(const std::string& key, uint64_t sequence, ChangeSource source) {
  const auto [entry, added] =
      first_.try_emplace(key, DirtyService::FirstChanges{DirtyService::kNone, DirtyService::kNone});
  uint64_t& first = entry->second[Index(source)];
  if (sequence != 0) first = std::min(first, sequence);
  if (added) queue_.push_back({.key = key, .sequence = sequence});
}

DirtyService DirtyServices::Take() {
  DirtyService service = std::move(queue_.front());
  queue_.pop_front();
  const auto entry = first_.find(service.key);
  service.first = entry->second;
  first_.erase(entry);
  const auto before = std::ranges::find(unfinished_, service.key, &DirtyService::key);
  if (before == unfinished_.end()) return service;
  if (before->sequence != 0) service.sequence = before->sequence;
  TakeEarlier(service.first, before->first);
  unfinished_.erase(before);
  return service;
}

void DirtyServices::Return(std::vector<DirtyService> services) {
  for (auto it = services.rbegin(); it != services.rend(); ++it) {
    const auto [entry, added] = first_.try_emplace(it->key, it->first);
    if (added) {
      queue_.push_front(std::move(*it));
    } else {
      TakeEarlier(entry->second, it->first);
    }
  }
}

DirtyService DirtyServices::TakeUnfinished() {
  DirtyService service = std::move(unfinished_.front());
  unfinished_.pop_front();
  return service;
}

void DirtyServices::ReturnUnfinished() {
  std::vector<DirtyService> services;
  // Take() adds the earlier changes to a Service that is dirty again.
  const auto changed = [this](const DirtyService& service) { return Contains(service.key); };
  std::ranges::copy_if(unfinished_, std::back_inserter(services), std::not_fn(changed));
  std::erase_if(unfinished_, std::not_fn(changed));
  std::ranges::sort(services, {}, &DirtyService::sequence);
  Return(std::move(services));
}

size_t DirtyServices::size() const {
  if (unfinished_.empty()) return queue_.size();  // The usual case.
  return queue_.size() + static_cast<size_t>(std::ranges::count_if(
                             unfinished_, [this](const auto& s) { return !Contains(s.key); }));
}

uint64_t DirtyServices::FirstChange(ChangeSource source) const {
  uint64_t first = queue_.empty() ? DirtyService::kNone : queue_.front().sequence;
  for (const DirtyService& service : unfinished_) {
    first = std::min(first, service.first[Index(source)]);
  }
  return first;
}

}  // namespace svcmap::proxy
