#include "api/daemon/notify.h"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <cstring>
#include <utility>

namespace svcmap::api {
namespace {

void Notify(const std::string& what) {
  const int sent = sd_notify(/*unset_environment=*/0, what.c_str());
  if (sent < 0) spdlog::warn("systemd was not told \"{}\": {}", what, std::strerror(-sent));
}

int64_t MonotonicMicroseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

void NotifyReady(const std::string& status) { Notify("READY=1\nSTATUS=" + status); }

void NotifyReloading(const std::string& status) {
  Notify("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(MonotonicMicroseconds()) +
         "\nSTATUS=" + status);
}

void NotifyStopping(const std::string& status) { Notify("STOPPING=1\nSTATUS=" + status); }

Watchdog::Watchdog(std::function<bool()> alive) : alive_(std::move(alive)) {
  uint64_t microseconds = 0;
  if (sd_watchdog_enabled(/*unset_environment=*/0, &microseconds) > 0) {
    interval_ = std::chrono::microseconds(microseconds / 4);
  }
}

void Watchdog::Ping() {
  const bool alive = alive_();
  if (alive) Notify("WATCHDOG=1");
  if (was_alive_ && !alive) {
    spdlog::warn("nothing moves: systemd's watchdog hears nothing from us, and may restart us");
  }
  was_alive_ = alive;
}

}  // namespace svcmap::api
