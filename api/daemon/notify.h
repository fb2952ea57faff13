// Tells systemd how we are (sd_notify(3)); does nothing where it did not ask. Any thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace svcmap::api {

void NotifyReady(const std::string& status);
void NotifyReloading(const std::string& status);  // Ends with the next NotifyReady.
void NotifyStopping(const std::string& status);

// Systemd restarts us when it hears nothing for WatchdogSec=; so it hears from us only while
// `alive` says that the agent does its work.
class Watchdog {
 public:
  explicit Watchdog(std::function<bool()> alive);

  // How often to call Ping: a quarter of what systemd allows. Zero: it does not ask.
  std::chrono::microseconds interval() const { return interval_; }
  void Ping();

 private:
  std::function<bool()> alive_;
  std::chrono::microseconds interval_{0};
  bool was_alive_ = true;
};

}  // namespace svcmap::api
