// When what changes tell of happened, until they are in the kernel: what lies between is the
// network programming latency (S-346). Better than there: the time of a change that is removed
// again, or whose commit failed, is not lost.
//
// Not thread-safe; owned by the reconcile loop.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>

#include "nft/types/ip_address.h"

namespace svcmap::proxy {

struct ProgrammingLatency {
  uint64_t count = 0;  // Changes that told when.
  std::chrono::nanoseconds sum{0}, last{0}, longest{0};
};

class TriggerTimes {
 public:
  using Time = std::chrono::system_clock::time_point;
  static constexpr size_t kMost = 65536;  // While the kernel takes nothing; others are not counted.

  // How long it took, for each change that told when. On the loop's thread; must not block.
  using Observer = std::function<void(Family, std::chrono::nanoseconds)>;

  // What happened before `start` was not ours to program (S-346).
  explicit TriggerTimes(Time start) : start_(start) {}

  // A change that came with `sequence`, which never decreases.
  void Add(uint64_t sequence, Time time, Family family) {
    if (time > start_ && waiting_.size() < kMost) waiting_.push_back({sequence, time, family});
  }

  // What came before `end` is in the kernel `now`. `observer` may be null.
  void Programmed(uint64_t end, Time now, const Observer& observer = nullptr) {
    for (; !waiting_.empty() && waiting_.front().sequence < end; waiting_.pop_front()) {
      // Another machine's clock said when it was.
      const std::chrono::nanoseconds took =
          std::max<std::chrono::nanoseconds>(now - waiting_.front().time, {});
      ++latency_.count;
      latency_.sum += took;
      latency_.last = took;
      latency_.longest = std::max(latency_.longest, took);
      if (observer) observer(waiting_.front().family, took);
    }
  }

  const ProgrammingLatency& latency() const { return latency_; }

 private:
  struct Waiting {
    uint64_t sequence;
    Time time;
    Family family;
  };

  const Time start_;
  std::deque<Waiting> waiting_;
  ProgrammingLatency latency_;
};

}  // namespace svcmap::proxy
