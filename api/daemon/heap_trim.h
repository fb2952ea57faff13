// Gives memory back to the system when much of it has become free: what a big sync needed in
// passing lies between what stays, and malloc keeps it otherwise. Not thread-safe.
#pragma once

#include <malloc.h>

#include <chrono>

#include "proxy/reconcile/loop.h"

namespace svcmap::api {

class HeapTrim {
 public:
  // After a sync; `done`: nothing is left to program. Looks through the free parts of the heap,
  // some ten milliseconds at a million endpoints: not after small syncs, and not before the last of
  // big ones.
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
  static constexpr std::chrono::seconds kRest{10};  // Also of those that come one after the other.
  bool due_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace svcmap::api
