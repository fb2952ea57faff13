// Returns free heap memory to the kernel after large syncs. Temporary allocations of a sync lie
// between permanent ones, so malloc would keep their pages. Not thread-safe.
#pragma once

#include <malloc.h>

#include <chrono>

#include "proxy/reconcile/loop.h"

namespace svcmap::api {

class HeapTrim {
 public:
  // Call after each sync. `done` means that no changes are pending. Trimming scans the free blocks
  // of the heap, which takes about 10 ms with a million endpoints. So the heap is trimmed only if a
  // large sync has run and no changes are pending.
  void AfterSync(const proxy::SyncResult& result, bool done) {
    if (result.elements >= kBigSync) due_ = true;
    const auto now = std::chrono::steady_clock::now();
    if (!due_ || !done || now < next_) return;
    due_ = false;
    next_ = now + kRest;
    malloc_trim(0);
  }

 private:
  static constexpr size_t kBigSync = 5000;          // Elements.
  static constexpr std::chrono::seconds kRest{10};  // Minimum time between two trims.
  bool due_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace svcmap::api
