// Measures the network programming latency (S-346): the time from the event that triggered a change
// until the change is in the kernel. Unlike kube-proxy, TriggerTimes counts changes that are
// removed again or whose commit failed.
//
// Not thread-safe; owned by the reconcile loop.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "nft/types/ip_address.h"
#include "proxy/reconcile/stages.h"

namespace svcmap::proxy {

class TriggerTimes {
 public:
  using Time = std::chrono::system_clock::time_point;
  // Maximum number of waiting changes, which is necessary because the kernel may reject commits for
  // a long time. Changes above the maximum are not counted.
  static constexpr size_t kMost = 65536;

  // Changes that were triggered before `start` are not counted (S-346).
  explicit TriggerTimes(Time start) : start_(start) {}

  // Adds a change of the batch `sequence`. Sequence numbers must not decrease.
  void Add(uint64_t sequence, Time time, Family family) {
    if (time > start_ && waiting_.size() < kMost) waiting_.push_back({sequence, time, family});
  }

  // Call Programmed when all changes with a sequence number below `end` are in the kernel. `now` is
  // the current time. Returns the family and the latency of each of these changes.
  std::vector<std::pair<Family, std::chrono::nanoseconds>> Programmed(uint64_t end, Time now) {
    std::vector<std::pair<Family, std::chrono::nanoseconds>> latencies;
    for (; !waiting_.empty() && waiting_.front().sequence < end; waiting_.pop_front()) {
      // The trigger time is from another machine's clock, so it can be in the future.
      latencies.emplace_back(waiting_.front().family,
                             std::max<std::chrono::nanoseconds>(now - waiting_.front().time, {}));
      latency_.Add(latencies.back().second);
    }
    return latencies;
  }

  // Times of all changes that are in the kernel.
  const StageTime& latency() const { return latency_; }

 private:
  struct Waiting {
    uint64_t sequence;
    Time time;
    Family family;
  };

  const Time start_;
  std::deque<Waiting> waiting_;
  StageTime latency_;
};

}  // namespace svcmap::proxy
