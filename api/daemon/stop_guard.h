// Ends the process on SIGTERM or SIGINT even if a file system or a lock blocks the process.
//
// svcmapd handles signals only after startup, and waits for the disk at exit. Start and exit may
// block forever on a hung disk. The state on disk is always consistent, so the process may end at
// any time.
#pragma once

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "nft/base/unique_fd.h"

namespace svcmap::api {

// While a StartGuard exists, SIGTERM and SIGINT end the process with status 0. The signals must be
// blocked in all threads. A signal that arrives after the guard was destroyed stays pending for the
// caller.
class StartGuard {
 public:
  StartGuard();
  ~StartGuard();
  StartGuard(const StartGuard&) = delete;
  StartGuard& operator=(const StartGuard&) = delete;

 private:
  void Run() const;

  UniqueFd signals_;  // A signalfd for SIGTERM and SIGINT.
  UniqueFd stop_;     // An eventfd that stops the thread.
  std::thread thread_;
};

// Ends the process with status 1 if the process is still running kTimeout after the guard was
// created.
class ExitGuard {
 public:
  // Shorter than the 8 s in docs/security.md, because two log lines take up to 100 ms each and the
  // kernel needs time to release the memory of the process. systemd and the kubelet kill the agent
  // later.
  static constexpr std::chrono::seconds kTimeout{7};

  ExitGuard();
  ~ExitGuard();
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace svcmap::api
