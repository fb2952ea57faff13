// Owning wrappers of libevent's event loop and events. Not thread-safe, except where stated.
#pragma once

#include <event2/event.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "nft/base/unique_fd.h"

namespace svcmap::api {

// Calls `fn` on the event loop. Not movable, because libevent stores the address of the Event. Must
// be destroyed before the event loop.
class Event {
 public:
  Event(event_base* base, std::function<void()> fn)  // Creates a timer.
      : Event(base, -1, 0, std::move(fn)) {}
  Event(event_base* base, int fd, short what, std::function<void()> fn)
      : fn_(std::move(fn)),
        event_(event_new(
            base, fd, what, [](int, short, void* self) { static_cast<Event*>(self)->fn_(); },
            this)) {}
  ~Event() { event_free(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void Wait() { event_add(event_, nullptr); }  // Calls `fn` when the descriptor is ready.
  void After(std::chrono::microseconds time) {
    const timeval tv = {.tv_sec = time.count() / 1000000, .tv_usec = time.count() % 1000000};
    event_add(event_, &tv);
  }
  void Cancel() { event_del(event_); }  // Cancels Wait() and After().
  bool pending() const { return event_pending(event_, EV_TIMEOUT, nullptr) != 0; }

 private:
  std::function<void()> fn_;
  event* event_;
};

// Accepts the connections of a listening socket on the event loop, until it is destroyed. After
// many connections in a row, other events have their turn. Pauses after a failed accept, for
// example if no file descriptor is free, because connections that are closed during the pause free
// descriptors.
class AcceptEvent {
 public:
  using Take = std::function<void(UniqueFd connection, const sockaddr_storage& from)>;

  // Calls `take` with each new, non-blocking connection.
  AcceptEvent(event_base* base, UniqueFd socket, Take take);

 private:
  void Accept();

  const UniqueFd socket_;
  const Take take_;
  Event ready_;
  Event resume_;
};

// A thread that runs an event loop. Objects that use the loop must be created before Start() and
// destroyed after Stop().
class EventThread {
 public:
  // `on_wake` is called on the thread after Wake(). Several calls of Wake() may cause only one call
  // of `on_wake`.
  explicit EventThread(std::function<void()> on_wake = [] {});
  ~EventThread() { Stop(); }

  event_base* base() const { return base_.get(); }
  void Start();
  void Wake();  // Thread-safe.
  void Stop();  // May be called several times.

 private:
  void OnWake();
  void Run();

  const std::function<void()> on_wake_;
  const std::unique_ptr<event_base, decltype(&event_base_free)> base_{event_base_new(),
                                                                      event_base_free};
  const UniqueFd wake_;
  Event woken_;
  std::mutex mutex_;
  bool stopping_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace svcmap::api
