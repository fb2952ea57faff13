#include "tests/bench/opponents/commit_watch.h"

namespace svcmap::bench {

absl::StatusOr<std::unique_ptr<CommitWatch>> CommitWatch::Start(const testing::NetNs& netns) {
  auto kernel = netns.Run([] { return nft::NetlinkKernel::Open({}); });
  if (!kernel.ok()) return kernel.status();
  const absl::StatusOr<uint32_t> generation = (*kernel)->Generation();
  if (!generation.ok()) return generation.status();
  std::unique_ptr<CommitWatch> watch(new CommitWatch(*std::move(kernel)));
  watch->last_ = {*generation, std::chrono::steady_clock::now()};
  watch->thread_ = std::thread([raw = watch.get()] { raw->Run(); });
  return watch;
}

CommitWatch::~CommitWatch() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

CommitWatch::Commit CommitWatch::Last() const {
  std::lock_guard lock(mutex_);
  return last_;
}

void CommitWatch::Run() {
  while (!stop_) {
    const absl::StatusOr<uint32_t> generation = kernel_->Generation();
    const auto now = std::chrono::steady_clock::now();
    if (generation.ok()) {
      std::lock_guard lock(mutex_);
      if (*generation != last_.generation) last_ = {*generation, now};
    }
    std::this_thread::sleep_until(now + kEvery);
  }
}

}  // namespace svcmap::bench
