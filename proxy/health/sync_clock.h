// Tracks since when the kernel has lacked a received change (S-251). Reads no clock and takes no
// lock: the reconcile loop reports events and synchronizes access.
#pragma once

#include <chrono>
#include <optional>

namespace svcmap::proxy {

class SyncClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void Told(Time now);  // A change was received.
  void Taken();         // All received changes are being programmed.
  void Synced();        // All changes that were being programmed are committed.

  std::optional<Time> oldest_unsynced() const { return taken_ ? taken_ : told_; }

 private:
  std::optional<Time> told_;  // Arrival time of the oldest change that is not being programmed yet.
  std::optional<Time> taken_;  // Arrival time of the oldest change that is being programmed.
};

}  // namespace svcmap::proxy
