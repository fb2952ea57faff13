// Recently added and removed endpoints of Services.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/hash/hash.h"
#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

// Hash of a Service's key, or kNoService.
using ServiceHash = uint64_t;
inline constexpr ServiceHash kNoService = 0;
inline ServiceHash HashOfService(const std::string& key) { return absl::HashOf(key) | 1; }

// Changes of all Services of a commit that can make TCP and SCTP connections stale.
struct EndpointChanges {
  bool any = false;  // A change can make handshakes stale.
  // Addresses that have become endpoints of a Service.
  std::vector<std::pair<ServiceHash, IpAddress>> added;
  // TCP endpoints that have left an EndpointSlice of a Service whose connections are reset.
  std::vector<std::pair<ServiceHash, EndpointAddress>> left;
};

// Records events by endpoint. `Key` is an address, or an address with a port. Not thread-safe.
template <typename Key>
class EndpointEvents {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Maximum number of recorded events, so that fast changes cannot use all memory.
  static constexpr size_t kMaxEvents = 65'536;

  struct Event {
    ServiceHash service;
    Time time;
  };
  using Events = absl::InlinedVector<Event, 1>;
  struct KeyedEvent {
    Event event;
    Key key;
  };

  // `now` must not be earlier than in the previous call. Forgets the oldest events above the limit,
  // and returns their number.
  size_t Add(const std::vector<std::pair<ServiceHash, Key>>& endpoints, Time now) {
    for (const auto& [service, key] : endpoints) {
      events_[key].push_back({service, now});
      order_.push_back({{service, now}, key});
    }
    size_t forgotten = 0;
    for (; order_.size() > kMaxEvents; ++forgotten) ForgetOldest();
    return forgotten;
  }
  // Forgets events that are not later than `time`.
  void ForgetUntil(Time time) {
    while (!order_.empty() && order_.front().event.time <= time) ForgetOldest();
  }
  // Returns the events of the endpoint in order of time, or null.
  const Events* Find(const Key& key) const {
    const auto found = events_.find(key);
    return found == events_.end() ? nullptr : &found->second;
  }
  // All events in order of time.
  const std::deque<KeyedEvent>& order() const { return order_; }

 private:
  void ForgetOldest() {
    const auto found = events_.find(order_.front().key);
    found->second.erase(found->second.begin());
    if (found->second.empty()) events_.erase(found);
    order_.pop_front();
  }

  absl::flat_hash_map<Key, Events> events_;
  std::deque<KeyedEvent> order_;
};

}  // namespace svcmap::proxy
