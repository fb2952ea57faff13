// Decides when to return free heap memory to the kernel after large changes. malloc keeps the pages
// of a sync's temporary allocations, because permanent allocations are interleaved with the
// temporary allocations.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

namespace svcmap::api {

class HeapTrim {
 public:
  using Clock = std::chrono::steady_clock;
  // Trimming scans the free blocks of the heap, which takes about 10 ms with a million endpoints,
  // and blocks other threads that allocate memory. Therefore the heap is trimmed only after many
  // written elements or removed bytes, and so much later that a load has usually ended.
  static constexpr size_t kManyElements = 5000;
  static constexpr uint64_t kManyBytes = uint64_t{16} << 20;
  static constexpr std::chrono::seconds kDelay{5};

  // AfterSync and AfterChange must be called on one thread.
  //
  // Call AfterSync after each sync, with the number of elements that it has written.
  void AfterSync(size_t elements, Clock::time_point now = Clock::now());
  // Call AfterChange after each change. `bytes` is the size of all stored objects, because even an
  // object with few endpoints may have megabytes of annotations.
  void AfterChange(uint64_t bytes, Clock::time_point now = Clock::now());

  // Returns true once if kDelay has passed since the first large change. The caller then trims the
  // heap. Thread-safe.
  bool TakeDue(Clock::time_point now = Clock::now());

 private:
  void Request(Clock::time_point now);

  size_t elements_ = 0;  // Written since the last request.
  uint64_t peak_ = 0;    // Maximum of `bytes` since the last request.

  std::mutex mutex_;
  std::optional<Clock::time_point> due_;  // Guarded by mutex_.
};

}  // namespace svcmap::api
