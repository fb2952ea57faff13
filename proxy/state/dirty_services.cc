#include "proxy/state/dirty_services.h"

#include <algorithm>
#include <utility>

namespace svcmap::proxy {

void DirtyServices::Mark(const std::string& key, BatchNumber batch) {
  const auto [known, added] = keys_.emplace(key, batch.small);
  if (added) ListOf(batch).push_back({key, batch});
  if (!known->second) last_merged_ = batch.sequence;
}

void DirtyServices::Return(std::vector<Service> services) {
  for (auto it = services.rbegin(); it != services.rend(); ++it) {
    if (!keys_.emplace(it->key, it->batch.small).second) continue;
    ListOf(it->batch).push_front(std::move(*it));
  }
}

const DirtyServices::Service* DirtyServices::Next() const {
  const std::deque<Service>& list = small_.empty() ? others_ : small_;
  return list.empty() ? nullptr : &list.front();
}

DirtyServices::Service DirtyServices::Take() {
  std::deque<Service>& list = small_.empty() ? others_ : small_;
  Service first = std::move(list.front());
  list.pop_front();
  keys_.erase(first.key);
  return first;
}

uint64_t DirtyServices::First(uint64_t none) const {
  const uint64_t first = others_.empty() ? none : others_.front().batch.sequence;
  return std::min(first, FirstSmall(none));
}

uint64_t DirtyServices::FirstSmall(uint64_t none) const {
  return small_.empty() ? none : small_.front().batch.sequence;
}

}  // namespace svcmap::proxy
