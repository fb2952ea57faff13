// Tracks the arrival time of the oldest received change that is not programmed yet (S-251).
// SyncClock reads no clock and takes no lock. The reconcile loop provides the times and
// synchronizes access.
#pragma once

#include <chrono>
#include <optional>

namespace svcmap::proxy {

class SyncClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void Received(Time now);  // Call when a change is received.
  void Started();           // Call when programming of all received changes starts.
  void Synced();            // Call when the changes in progress are committed.

  std::optional<Time> oldest_unsynced() const { return started_ ? started_ : received_; }

 private:
  std::optional<Time> received_;  // Arrival time of the oldest waiting change.
  std::optional<Time> started_;   // Arrival time of the oldest change in progress.
};

}  // namespace svcmap::proxy
