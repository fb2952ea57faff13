// Keeps gRPC's timers on time when the system clock is set back.
//
// Abseil 20220623 uses an absolute time of CLOCK_REALTIME to wait for gRPC's next timer. If the
// clock is set back by an hour during the wait, all timers are an hour late. For example, streams
// without an Open message are not closed, connections of failed peers are not detected, and
// requests have no timeout. ClockWatch interrupts gRPC's wait after the system clock was set.
#pragma once

#include <chrono>

namespace svcmap::api {

class ClockWatch {
 public:
  ClockWatch();  // Call after gRPC is initialized.
  void Check();  // Call every second. Not thread-safe.

 private:
  std::chrono::nanoseconds offset_;  // CLOCK_REALTIME minus CLOCK_MONOTONIC.
};

}  // namespace svcmap::api
