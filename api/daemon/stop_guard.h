// Ends the process on SIGTERM or SIGINT even if a file system or a lock blocks the process.
//
// svcmapd handles signals only after startup, and waits for the disk at exit. Start and exit may
// block forever on a hung disk. The state on disk is always consistent, so the process may end at
// any time.
#pragma once

#include <signal.h>

#include <chrono>
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

// Shorter than the 8 s in docs/security.md, because two log lines take up to 100 ms each and the
// kernel needs time to release the memory of the process. systemd and the kubelet kill the agent
// later.
inline constexpr std::chrono::seconds kExitTimeout{7};

// Ends the process with status 1 if the process is still running after kExitTimeout. Needs its own
// thread, because a hung disk may block all other threads.
void StartExitGuard();

}  // namespace svcmap::api
