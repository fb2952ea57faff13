// Detects nf_tables changes in a network namespace by polling the generation id. A poll takes
// microseconds, whereas the duration of an nft run increases with the size of the tables.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"
#include "nft/netlink/netlink_kernel.h"
#include "tests/support/netns.h"

namespace svcmap::bench {

class CommitWatch {
 public:
  static constexpr std::chrono::microseconds kEvery{200};

  // Commits that CommitWatch has detected. A reported time is at most kEvery later than the commit.
  // Before the first commit, `first` and `last` are the start time.
  struct Commits {
    uint32_t generation = 0;  // The generation id after the last change.
    uint32_t count = 0;       // Number of changes of the generation id since the start.
    std::chrono::steady_clock::time_point first, last;
  };

  static absl::StatusOr<std::unique_ptr<CommitWatch>> Start(const testing::NetNs& netns);
  ~CommitWatch();

  Commits Seen() const;

 private:
  explicit CommitWatch(std::unique_ptr<nft::NetlinkKernel> kernel) : kernel_(std::move(kernel)) {}
  void Run();

  std::unique_ptr<nft::NetlinkKernel> kernel_;
  mutable std::mutex mutex_;
  Commits seen_;  // Detected commits. Guarded by mutex_.
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace svcmap::bench
