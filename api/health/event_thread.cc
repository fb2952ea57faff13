#include "api/health/event_thread.h"

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

namespace svcmap::api {
namespace {

void LogLibevent(int severity, const char* message) {
  spdlog::log(severity >= EVENT_LOG_WARN ? spdlog::level::warn : spdlog::level::debug,
              "libevent: {}", message);
}

}  // namespace

EventThread::EventThread(std::function<void()> on_wake)
    : on_wake_(std::move(on_wake)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      woken_(base_.get(), wake_.get(), EV_READ | EV_PERSIST, [this] { OnWake(); }) {}

void EventThread::Start() {
  static std::once_flag once;  // It is one for the process.
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

// Fails only where the thread was woken more often than a counter can count.
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
  sigset_t all;  // Also SIGPIPE, for those who do not wait for their answer.
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  event_base_dispatch(base_.get());
}

}  // namespace svcmap::api
