// When nf_tables of a namespace was last changed: polls its generation id, which costs
// microseconds, where nft takes longer the more there is in the tables.
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
  static constexpr std::chrono::microseconds kEvery{500};

  struct Commit {
    uint32_t generation = 0;
    std::chrono::steady_clock::time_point seen;  // At most kEvery late.
  };

  static absl::StatusOr<std::unique_ptr<CommitWatch>> Start(const testing::NetNs& netns);
  ~CommitWatch();

  // The last one, or the state at the start.
  Commit Last() const;

 private:
  explicit CommitWatch(std::unique_ptr<nft::NetlinkKernel> kernel) : kernel_(std::move(kernel)) {}
  void Run();

  std::unique_ptr<nft::NetlinkKernel> kernel_;
  mutable std::mutex mutex_;
  Commit last_;  // Guarded by mutex_.
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace svcmap::bench
