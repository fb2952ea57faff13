// Returns free heap memory to the kernel after large syncs. malloc does not return the pages of a
// sync's temporary allocations, because permanent allocations are interleaved with the temporary
// allocations. Not thread-safe.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "proxy/reconcile/loop.h"

namespace svcmap::api {

class HeapTrim {
 public:
  // Call AfterSync after each sync. `done` means that no changes are pending. Trimming scans the
  // free blocks of the heap, which takes about 10 ms with a million endpoints. Therefore the heap
  // is trimmed only after many written elements, and if no changes are pending.
  void AfterSync(const proxy::SyncResult& result, bool done) {
    elements_ += result.elements;
    const auto now = std::chrono::steady_clock::now();
    if (elements_ < kManyElements || !done || now < next_) return;
    elements_ = 0;
    next_ = now + kRest;
    malloc_trim(0);
  }

  // Call AfterChange after each change. `bytes` is the size of all stored objects. Trims the heap
  // after many bytes have been removed, because even an object with few endpoints may have
  // megabytes of annotations. Returns true if at least half of the bytes have been removed since
  // AfterChange last returned true.
  bool AfterChange(uint64_t bytes) {
    peak_ = std::max(peak_, bytes);
    most_ = std::max(most_, bytes);
    if (peak_ - bytes < kManyBytes) return false;
    peak_ = bytes;
    malloc_trim(0);
    if (bytes > most_ / 2) return false;
    most_ = bytes;
    return true;
  }

 private:
  static constexpr uint64_t kManyBytes = uint64_t{16} << 20;
  static constexpr size_t kManyElements = 5000;
  static constexpr std::chrono::seconds kRest{10};  // Minimum time between two trims.
  size_t elements_ = 0;                             // Written since the last trim.
  std::chrono::steady_clock::time_point next_;
  uint64_t peak_ = 0;  // Maximum of `bytes` since the last trim.
  uint64_t most_ = 0;  // Maximum of `bytes` since AfterChange last returned true.
};

}  // namespace svcmap::api
