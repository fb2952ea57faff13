#include "tests/bench/commit_watch.h"

namespace svcmap::bench {

absl::StatusOr<std::unique_ptr<CommitWatch>> CommitWatch::Start(const testing::NetNs& netns) {
  auto kernel = netns.Run([] { return nft::NetlinkKernel::Open({}); });
  if (!kernel.ok()) return kernel.status();
  const absl::StatusOr<uint32_t> generation = (*kernel)->Generation();
  if (!generation.ok()) return generation.status();
  std::unique_ptr<CommitWatch> watch(new CommitWatch(*std::move(kernel)));
  const auto now = std::chrono::steady_clock::now();
  watch->seen_ = {.generation = *generation, .first = now, .last = now};
  watch->thread_ = std::thread([raw = watch.get()] { raw->Run(); });
  return watch;
}

CommitWatch::~CommitWatch() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

CommitWatch::Commits CommitWatch::Seen() const {
  std::lock_guard lock(mutex_);
  return seen_;
}

void CommitWatch::Run() {
  while (!stop_) {
    const absl::StatusOr<uint32_t> generation = kernel_->Generation();
    const auto now = std::chrono::steady_clock::now();
    if (generation.ok()) {
      std::lock_guard lock(mutex_);
      if (*generation != seen_.generation) {
        if (seen_.count == 0) seen_.first = now;
        seen_.last = now;
        seen_.count += *generation - seen_.generation;
        seen_.generation = *generation;
      }
    }
    std::this_thread::sleep_until(now + kEvery);
  }
}

}  // namespace svcmap::bench
