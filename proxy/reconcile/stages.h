// Measures how long messages spend in each stage until they are answered. The values accumulate
// from the start, so the difference between two readings describes the time between the two
// readings.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace svcmap::proxy {

// In processing order. The stages of one batch do not overlap.
enum class Stage : uint8_t {
  // Stages of a batch.
  kConvert,  // From the receipt of the decoded message to Submit: validation and conversion.
  kQueue,    // From Submit until the loop takes the batch.
  kIntake,   // Changing the store.
  // Stages of a transaction, which may contain several merged batches. Rejected transactions are
  // included.
  kPlan,    // Computing the desired rows and the difference to the applied rows.
  kSave,    // Waiting after the commit until the objects are saved.
  kKernel,  // Building and sending the netlink batch, and waiting for its acknowledgement.
  kFollow,  // Updating the applied rows, the status and observers after the commit.
  // A stage of a batch.
  kAnswer,  // Building the answer and passing it to gRPC.
  // Deleting leftovers after the batches are answered.
  kRemove,
};
inline constexpr size_t kStages = 9;

constexpr std::string_view StageName(Stage stage) {
  constexpr std::array<std::string_view, kStages> kNames = {
      "convert", "queue", "intake", "plan", "save", "kernel", "follow", "answer", "remove"};
  return kNames[static_cast<size_t>(stage)];
}

struct StageTime {
  void Add(std::chrono::nanoseconds took) {
    ++count;
    sum += took;
    last = took;
    longest = std::max(longest, took);
  }

  uint64_t count = 0;
  std::chrono::nanoseconds sum{0}, last{0}, longest{0};
};

// Not thread-safe; owned by the reconcile loop.
class StageTimes {
 public:
  void Add(Stage stage, std::chrono::nanoseconds took) {
    times_[static_cast<size_t>(stage)].Add(took);
  }
  const StageTime& of(Stage stage) const { return times_[static_cast<size_t>(stage)]; }

 private:
  std::array<StageTime, kStages> times_;
};

}  // namespace svcmap::proxy
