#include "api/health/event.h"

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include "api/log/log_value.h"

namespace svcmap::api {
namespace {

void LogLibevent(int severity, const char* message) {
  spdlog::log(severity >= EVENT_LOG_WARN ? spdlog::level::warn : spdlog::level::debug,
              "libevent message text={}", LogValue(message));
}

}  // namespace

EventThread::EventThread(std::function<void()> on_wake)
    : on_wake_(std::move(on_wake)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      woken_(base_.get(), wake_.get(), EV_READ | EV_PERSIST, [this] { OnWake(); }) {}

void EventThread::Start() {
  static std::once_flag once;  // Sets the callback only once, because the callback is global.
  std::call_once(once, [] { event_set_log_callback(LogLibevent); });
  woken_.Wait();
  thread_ = std::thread([this] { Run(); });
}

void EventThread::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
}

// eventfd_write fails only if the 64-bit counter overflows.
void EventThread::Wake() { eventfd_write(wake_.get(), 1); }

void EventThread::OnWake() {
  eventfd_t count = 0;
  eventfd_read(wake_.get(), &count);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) event_base_loopbreak(base_.get());
  }
  on_wake_();
}

void EventThread::Run() {
  sigset_t all;  // Includes SIGPIPE, in case a client closes the connection before the response.
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  event_base_dispatch(base_.get());
}

}  // namespace svcmap::api
