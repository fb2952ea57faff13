#include "api/process/notify.h"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <cstring>
#include <utility>

#include "api/log/log_value.h"

namespace svcmap::api {
namespace {

void Notify(const std::string& what) {
  const int sent = sd_notify(/*unset_environment=*/0, what.c_str());
  if (sent >= 0) return;
  spdlog::warn("cannot notify systemd message={} error={}", LogValue(what),
               LogValue(std::strerror(-sent)));
}

}  // namespace

void NotifyReady(const std::string& status) { Notify("READY=1\nSTATUS=" + status); }

void NotifyReloading(const std::string& status) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();  // CLOCK_MONOTONIC
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  Notify("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds) + "\nSTATUS=" + status);
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
    spdlog::warn("no progress, systemd will restart this process if its watchdog expires");
  }
  was_alive_ = alive;
}

}  // namespace svcmap::api
