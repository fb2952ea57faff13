// Where the time from a message to its answer goes: what each stage took, since the start. Sums and
// counts only: what two looks differ by says what happened in between.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace svcmap::proxy {

// In the order in which a change goes through them; no two of them overlap for one batch.
enum class Stage : uint8_t {
  // Of a batch.
  kConvert,  // From when it came in, decoded, to when the loop gets it: checked, and made to
             // values.
  kQueue,    // From then until the loop takes it.
  kIntake,   // Into the store.
  // Of a transaction, for all batches merged in it; also of one that the kernel refuses.
  kPlan,    // What its Services resolve to, the rows they want, and how these differ from what is.
  kSave,    // Saving objects and attempt before the kernel is asked, and its outcome after.
  kKernel,  // The netlink batch: built, sent, and taken.
  kFollow,  // All that follows: what is applied is noted and told, also to those who watch.
  // Of a batch.
  kAnswer,  // Making its answer and handing it to gRPC.
  // Of a commit that deletes leftovers, after the answers.
  kRemove,
};
inline constexpr size_t kStages = 9;

constexpr std::string_view StageName(Stage stage) {
  constexpr std::array<std::string_view, kStages> kNames = {
      "convert", "queue", "intake", "plan", "save", "kernel", "follow", "answer", "remove"};
  return kNames[static_cast<size_t>(stage)];
}

struct StageTime {
  uint64_t count = 0;
  std::chrono::nanoseconds sum{0}, last{0}, longest{0};
};

// Not thread-safe; owned by the reconcile loop.
class StageTimes {
 public:
  void Add(Stage stage, std::chrono::nanoseconds took) {
    StageTime& time = times_[static_cast<size_t>(stage)];
    ++time.count;
    time.sum += took;
    time.last = took;
    time.longest = std::max(time.longest, took);
  }
  const StageTime& of(Stage stage) const { return times_[static_cast<size_t>(stage)]; }

 private:
  std::array<StageTime, kStages> times_;
};

}  // namespace svcmap::proxy
