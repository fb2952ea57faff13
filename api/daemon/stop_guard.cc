#include "api/daemon/stop_guard.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace svcmap::api {

StartGuard::StartGuard() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  signals_ = UniqueFd(signalfd(-1, &signals, SFD_CLOEXEC));
  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  if (signals_.ok() && stop_.ok()) thread_ = std::thread([this] { Run(); });
}

StartGuard::~StartGuard() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void StartGuard::Run() const {
  pollfd polled[] = {{stop_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
  while (poll(polled, 2, -1) < 0) {
  }
  // The guard is being destroyed, so the caller handles signals.
  if (polled[0].revents != 0) return;
  spdlog::info("exiting during start, rules stay in effect");
  spdlog::default_logger()->flush();
  _exit(0);  // Skips destructors, because another thread may be blocked forever.
}

void StartExitGuard() {
  std::thread([] {
    std::this_thread::sleep_for(kExitTimeout);
    spdlog::error("shutdown timed out, exiting before the state file is synced timeout_s={}",
                  kExitTimeout.count());
    spdlog::default_logger()->flush();
    _exit(1);
  }).detach();
}

}  // namespace svcmap::api
