// Returns free heap memory to the kernel after large changes. malloc keeps the pages of a sync's
// temporary allocations, because permanent allocations are interleaved with the temporary
// allocations.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

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

  // Calls `trim` on a thread of this class, or if `own_thread` is false, in TrimIfDue().
  explicit HeapTrim(std::function<void()> trim, bool own_thread = true);
  ~HeapTrim();
  HeapTrim(const HeapTrim&) = delete;
  HeapTrim& operator=(const HeapTrim&) = delete;

  // AfterSync and AfterChange must be called on one thread.
  //
  // Call AfterSync after each sync, with the number of elements that it has written.
  void AfterSync(size_t elements, Clock::time_point now = Clock::now());
  // Call AfterChange after each change. `bytes` is the size of all stored objects, because even an
  // object with few endpoints may have megabytes of annotations. Returns true if at least half of
  // the bytes have been removed since AfterChange last returned true.
  bool AfterChange(uint64_t bytes, Clock::time_point now = Clock::now());

  // Trims the heap if kDelay has passed since the first large change. Returns when it will have
  // passed, or nullopt if there was no large change since the last trim.
  std::optional<Clock::time_point> TrimIfDue(Clock::time_point now);

 private:
  void Request(Clock::time_point now);
  void Run();

  const std::function<void()> trim_;
  size_t elements_ = 0;  // Written since the last request.
  uint64_t peak_ = 0;    // Maximum of `bytes` since the last request.
  uint64_t most_ = 0;    // Maximum of `bytes` since AfterChange last returned true.

  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<Clock::time_point> due_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace svcmap::api
