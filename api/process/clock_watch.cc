#include "api/process/clock_watch.h"

#include <spdlog/spdlog.h>

// Makes gRPC's timer thread recompute its wait time. gRPC 1.51 exports this function without
// declaring it in a header. The function pointer is null in gRPC versions without this function.
[[gnu::weak]] void grpc_kick_poller();

namespace svcmap::api {
namespace {

// Changes that affect gRPC's timers noticeably. Time synchronization slows the clock down or speeds
// it up by at most 0.5 ms per second.
constexpr std::chrono::milliseconds kSet{10};
// Minimum clock change that is logged.
constexpr std::chrono::seconds kLogged{1};

std::chrono::nanoseconds OffsetOfClock() {
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::system_clock::now().time_since_epoch() - steady;
}

}  // namespace

ClockWatch::ClockWatch() : offset_(OffsetOfClock()) {}

void ClockWatch::Check() {
  const std::chrono::nanoseconds offset = OffsetOfClock();
  const std::chrono::nanoseconds change = offset - offset_;
  offset_ = offset;
  if (std::chrono::abs(change) >= kSet && grpc_kick_poller != nullptr) grpc_kick_poller();
  if (std::chrono::abs(change) >= kLogged) {
    spdlog::info("system clock set change_s={:.3f}", std::chrono::duration<double>(change).count());
  }
}

}  // namespace svcmap::api
