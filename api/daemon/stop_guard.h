// Ends the process on SIGTERM or SIGINT even if a file system or a lock does not answer.
//
// The agent waits for signals only after its start, and its exit waits for the disk. Both may block
// forever on a hung disk. The state on disk is consistent at any time, so that the process can end
// at any time.
#pragma once

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "nft/base/unique_fd.h"

namespace svcmap::api {

// While it exists, a SIGTERM or SIGINT ends the process with status 0. The signals have to be
// blocked in all threads. A signal that arrives later stays pending for the caller.
class StartGuard {
 public:
  StartGuard();
  ~StartGuard();
  StartGuard(const StartGuard&) = delete;
  StartGuard& operator=(const StartGuard&) = delete;

 private:
  void Run() const;

  UniqueFd signals_;  // A signalfd.
  UniqueFd stop_;     // An eventfd.
  std::thread thread_;
};

// Ends the process with status 1 if it still exists after kTimeout.
class ExitGuard {
 public:
  // Shorter than the time after which systemd and the kubelet kill the agent.
  static constexpr std::chrono::seconds kTimeout{8};

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
