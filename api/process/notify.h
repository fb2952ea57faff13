// Notifies systemd about the state of the process (sd_notify(3)). Does nothing if the process was
// not started by systemd with NotifyAccess=. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace svcmap::api {

void NotifyReady(const std::string& status);
void NotifyReloading(const std::string& status);  // Call NotifyReady when the reload is complete.
void NotifyStopping(const std::string& status);

// systemd restarts the process if it receives no ping for WatchdogSec=. Pings are sent only while
// `alive` returns true.
class Watchdog {
 public:
  explicit Watchdog(std::function<bool()> alive);

  // Time between calls of Ping: a quarter of WatchdogSec=, or zero if the watchdog is disabled.
  std::chrono::microseconds interval() const { return interval_; }
  void Ping();

 private:
  std::function<bool()> alive_;
  std::chrono::microseconds interval_{0};
  bool was_alive_ = true;
};

}  // namespace svcmap::api
