// Services that have changed and are not programmed yet, in the order of their first change. Plans
// take Services from this list.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace svcmap::proxy {

struct DirtyService {
  std::string key;
  uint64_t sequence = 0;  // Number of the first change. 0: no batch has changed the Service.
};

class DirtyServices {
 public:
  // Adds a Service that a change has made dirty. `sequence` is the number of the change and never
  // decreases. If no batch caused the change, `sequence` is 0.
  void Mark(const std::string& key, uint64_t sequence) {
    if (keys_.insert(key).second) queue_.push_back({key, sequence});
  }
  // Returns the Service that changed first, or null.
  const DirtyService* First() const { return queue_.empty() ? nullptr : &queue_.front(); }
  // Removes First() from the list.
  DirtyService Take() {
    DirtyService service = std::move(queue_.front());
    queue_.pop_front();
    keys_.erase(service.key);
    return service;
  }
  // Puts Services at the front of the list.
  void Return(std::vector<DirtyService> services) {
    for (auto it = services.rbegin(); it != services.rend(); ++it) {
      if (keys_.insert(it->key).second) queue_.push_front(std::move(*it));
    }
  }

  size_t size() const { return queue_.size(); }
  // Calls fn(const DirtyService&) for each Service.
  template <typename Fn>
  void ForEach(Fn&& fn) const {
    for (const DirtyService& service : queue_) fn(service);
  }

 private:
  std::deque<DirtyService> queue_;
  absl::flat_hash_set<std::string> keys_;  // Services in `queue_`.
};

}  // namespace svcmap::proxy
