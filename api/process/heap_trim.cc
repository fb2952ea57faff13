#include "api/process/heap_trim.h"

#include <algorithm>

namespace svcmap::api {

void HeapTrim::AfterSync(size_t elements, Clock::time_point now) {
  elements_ += elements;
  if (elements_ < kManyElements) return;
  elements_ = 0;
  Request(now);
}

void HeapTrim::AfterChange(uint64_t bytes, Clock::time_point now) {
  peak_ = std::max(peak_, bytes);
  if (peak_ - bytes < kManyBytes) return;
  peak_ = bytes;
  Request(now);
}

void HeapTrim::Request(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (!due_) due_ = now + kDelay;
}

bool HeapTrim::TakeDue(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (!due_ || now < *due_) return false;
  due_.reset();
  return true;
}

}  // namespace svcmap::api
