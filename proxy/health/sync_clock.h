// Since when the kernel has lacked something that we were told (S-251). No clock, no lock: the
// reconcile loop says what happens, and guards it.
#pragma once

#include <chrono>
#include <optional>

namespace svcmap::proxy {

class SyncClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void Told(Time now);  // A change is waiting to be taken.
  void Taken();         // All that was told so far is being programmed.
  void Synced();        // All that was taken is in the kernel.

  std::optional<Time> oldest_unsynced() const { return taken_ ? taken_ : told_; }

 private:
  std::optional<Time> told_;   // The oldest change that was not taken.
  std::optional<Time> taken_;  // The oldest one that was, and is not in the kernel.
};

}  // namespace svcmap::proxy
