// Keeps gRPC's timers on time when the system clock is set back.
//
// Abseil 20220623 uses an absolute time of CLOCK_REALTIME to wait for gRPC's next timer. If the
// clock is set back by an hour during the wait, all timers are an hour late. For example, streams
// without an Open message are not closed, and connections of failed peers are not detected.
// ClockWatch interrupts gRPC's wait as soon as the system clock changes.
#pragma once

#include <chrono>
#include <thread>

#include "nft/base/unique_fd.h"

namespace svcmap::api {

class ClockWatch {
 public:
  ClockWatch();  // Call after gRPC is initialized.
  ~ClockWatch();
  ClockWatch(const ClockWatch&) = delete;
  ClockWatch& operator=(const ClockWatch&) = delete;

 private:
  void Run();
  void ClockSet();

  UniqueFd stop_;   // An eventfd that stops the thread.
  UniqueFd clock_;  // A timerfd that never expires, but is cancelled if the clock is set.
  std::chrono::nanoseconds offset_;  // CLOCK_REALTIME minus CLOCK_MONOTONIC.
  std::thread thread_;
};

}  // namespace svcmap::api
