// Calls `expire` once if an armed operation takes longer than the limit. Arm takes a lock, but does
// not wake a thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace svcmap::bench {

class TimeLimit {
 public:
  using Clock = std::chrono::steady_clock;

  TimeLimit(std::chrono::milliseconds limit, std::function<void()> expire)
      : limit_(limit), expire_(std::move(expire)), thread_([this] { Run(); }) {}
  ~TimeLimit() {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void Arm() {
    std::lock_guard lock(mutex_);
    deadline_ = Clock::now() + limit_;
  }
  void Disarm() {
    std::lock_guard lock(mutex_);
    deadline_.reset();
  }
  bool expired() const {
    std::lock_guard lock(mutex_);
    return expired_;
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (!ended_ && !expired_) {
      // The deadlines of operations that are armed during this wait are later than `until`.
      const Clock::time_point until = deadline_.value_or(Clock::now() + limit_);
      changed_.wait_until(lock, until, [this] { return ended_; });
      expired_ = deadline_.has_value() && Clock::now() >= *deadline_;
    }
    if (expired_ && !ended_) expire_();
  }

  const std::chrono::milliseconds limit_;
  const std::function<void()> expire_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Clock::time_point> deadline_;
  bool ended_ = false;
  bool expired_ = false;
  std::thread thread_;
};

}  // namespace svcmap::bench
