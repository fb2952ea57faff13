// Tracks the arrival time of the oldest received change that is not programmed yet (S-251). Reads
// no clock and takes no lock: the reconcile loop reports events and synchronizes access.
#pragma once

#include <chrono>
#include <optional>

namespace svcmap::proxy {

class SyncClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void Received(Time now);  // Call when a change was received.
  void Started();           // Call when programming of all received changes starts.
  void Synced();            // Call when the changes that were being programmed are committed.

  std::optional<Time> oldest_unsynced() const { return started_ ? started_ : received_; }

 private:
  std::optional<Time>
      received_;  // Arrival time of the oldest change that is not being programmed yet.
  std::optional<Time> started_;  // Arrival time of the oldest change that is being programmed.
};

}  // namespace svcmap::proxy
