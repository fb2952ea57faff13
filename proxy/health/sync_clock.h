// Tracks the arrival time of the oldest received change that is not programmed yet (S-251).
// SyncClock reads no clock and takes no lock. The reconcile loop provides the times and
// synchronizes access.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

namespace svcmap::proxy {

class SyncClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Call when a change is received.
  void Received(Time now) {
    if (!received_) received_ = now;
  }
  // Call at the start of a turn of the loop.
  void Started() {
    const std::optional<Time> reported = std::exchange(received_, std::nullopt);
    if (!started_) started_ = reported;
  }
  // Call when the accepted changes are committed. `waiting`: arrival time of the oldest change that
  // was received before Started(), but is not accepted yet.
  void Synced(std::optional<Time> waiting = std::nullopt) { started_ = waiting; }

  std::optional<Time> oldest_unsynced() const { return started_ ? started_ : received_; }

 private:
  std::optional<Time> received_;  // Arrival time of the oldest change since Started().
  std::optional<Time> started_;   // Arrival time of the oldest uncommitted change before Started().
};

}  // namespace svcmap::proxy
