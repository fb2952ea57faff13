#include "api/daemon/clock_watch.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <limits>

// Makes gRPC's timer thread recompute its wait time. gRPC 1.51 exports this function without
// declaring it in a header. The function pointer is null in gRPC versions without this function.
[[gnu::weak]] void grpc_kick_poller();

namespace svcmap::api {
namespace {

// Minimum clock change that is logged. Time synchronization often adjusts the clock, but only by
// fractions of a second.
constexpr std::chrono::seconds kLogged{1};

std::chrono::nanoseconds OffsetOfClock() {
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::system_clock::now().time_since_epoch() - steady;
}

// Makes reads from the timerfd `clock` fail when the system clock is set. On failure, sets errno
// and returns false.
bool ReportChanges(int clock) {
  itimerspec never = {};
  never.it_value.tv_sec = std::numeric_limits<time_t>::max();
  return timerfd_settime(clock, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, nullptr) == 0;
}

}  // namespace

ClockWatch::ClockWatch()
    : stop_(eventfd(0, EFD_CLOEXEC)),
      clock_(timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK)),
      offset_(OffsetOfClock()) {
  if (!stop_.ok() || !clock_.ok() || !ReportChanges(clock_.get())) {
    spdlog::warn("changes to the system clock are not detected error=\"{}\"", strerror(errno));
    return;
  }
  thread_ = std::thread([this] { Run(); });
}

ClockWatch::~ClockWatch() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void ClockWatch::Run() {
  pollfd polled[] = {{stop_.get(), POLLIN, 0}, {clock_.get(), POLLIN, 0}};
  for (;;) {
    if (poll(polled, 2, -1) < 0) continue;
    if (polled[0].revents != 0) return;
    uint64_t expirations = 0;
    const ssize_t size = read(clock_.get(), &expirations, sizeof(expirations));
    if (size < 0 && errno == ECANCELED) ClockSet();
  }
}

void ClockWatch::ClockSet() {
  if (grpc_kick_poller != nullptr) grpc_kick_poller();
  const std::chrono::nanoseconds offset = OffsetOfClock();
  const std::chrono::nanoseconds change = offset - offset_;
  offset_ = offset;
  if (change <= -kLogged || change >= kLogged) {
    spdlog::info("system clock set change_s={:.3f}", std::chrono::duration<double>(change).count());
  }
}

}  // namespace svcmap::api
