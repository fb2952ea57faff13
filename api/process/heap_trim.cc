#include "api/process/heap_trim.h"

#include <algorithm>
#include <utility>

namespace svcmap::api {

HeapTrim::HeapTrim(std::function<void()> trim, bool own_thread) : trim_(std::move(trim)) {
  if (own_thread) thread_ = std::thread([this] { Run(); });
}

HeapTrim::~HeapTrim() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void HeapTrim::AfterSync(size_t elements, Clock::time_point now) {
  elements_ += elements;
  if (elements_ < kManyElements) return;
  elements_ = 0;
  Request(now);
}

bool HeapTrim::AfterChange(uint64_t bytes, Clock::time_point now) {
  peak_ = std::max(peak_, bytes);
  most_ = std::max(most_, bytes);
  if (peak_ - bytes < kManyBytes) return false;
  peak_ = bytes;
  Request(now);
  if (bytes > most_ / 2) return false;
  most_ = bytes;
  return true;
}

void HeapTrim::Request(Clock::time_point now) {
  {
    const std::lock_guard lock(mutex_);
    if (due_) return;
    due_ = now + kDelay;
  }
  wake_.notify_one();
}

std::optional<HeapTrim::Clock::time_point> HeapTrim::TrimIfDue(Clock::time_point now) {
  {
    const std::lock_guard lock(mutex_);
    if (!due_ || now < *due_) return due_;
    due_.reset();
  }
  trim_();
  return std::nullopt;
}

void HeapTrim::Run() {
  while (true) {
    const std::optional<Clock::time_point> due = TrimIfDue(Clock::now());
    std::unique_lock lock(mutex_);
    if (due) {
      wake_.wait_until(lock, *due, [this] { return stopping_; });
    } else {
      wake_.wait(lock, [this] { return stopping_ || due_; });
    }
    if (stopping_) return;
  }
}

}  // namespace svcmap::api
