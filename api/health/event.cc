#include "api/health/event.h"

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "api/log/log_value.h"

namespace svcmap::api {
namespace {

constexpr int kAcceptsInARow = 64;
constexpr std::chrono::milliseconds kPauseAfterFailedAccept{100};

void LogLibevent(int severity, const char* message) {
  spdlog::log(severity >= EVENT_LOG_WARN ? spdlog::level::warn : spdlog::level::debug,
              "libevent message text={}", LogValue(message));
}

}  // namespace

AcceptEvent::AcceptEvent(event_base* base, UniqueFd socket, Take take)
    : socket_(std::move(socket)),
      take_(std::move(take)),
      ready_(base, socket_.get(), EV_READ | EV_PERSIST, [this] { Accept(); }),
      resume_(base, [this] { ready_.Wait(); }) {
  ready_.Wait();
}

void AcceptEvent::Accept() {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    sockaddr_storage from = {};
    socklen_t size = sizeof(from);
    UniqueFd connection(accept4(socket_.get(), reinterpret_cast<sockaddr*>(&from), &size,
                                SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.ok()) {
      take_(std::move(connection), from);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      ready_.Cancel();
      return resume_.After(kPauseAfterFailedAccept);
    }  // Other errors: EINTR, or an error of a connection that is already closed.
  }
}

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
