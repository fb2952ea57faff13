// Sets the system clock of processes that load clock_shim.cc.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/base/status.h"
#include "nft/base/unique_fd.h"

namespace svcmap::testing {

class ShimClock {
 public:
  static absl::StatusOr<std::unique_ptr<ShimClock>> Make(const std::string& folder) {
    std::string path = folder + "/clock";
    const UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file.ok() || ftruncate(file.get(), sizeof(int64_t)) != 0) return ErrnoStatus(errno, path);
    void* memory =
        mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return ErrnoStatus(errno, path);
    return std::unique_ptr<ShimClock>(
        new ShimClock(std::move(path), static_cast<std::atomic<int64_t>*>(memory)));
  }
  ~ShimClock() { munmap(offset_, sizeof(int64_t)); }
  ShimClock(const ShimClock&) = delete;
  ShimClock& operator=(const ShimClock&) = delete;

  // Environment of the processes.
  std::vector<std::string> environment() const {
    return {"CLOCK_SHIM_FILE=" + path_, std::string("LD_PRELOAD=") + SVCMAP_CLOCK_SHIM};
  }
  void Step(std::chrono::nanoseconds change) { *offset_ += change.count(); }

 private:
  ShimClock(std::string path, std::atomic<int64_t>* offset)
      : path_(std::move(path)), offset_(offset) {}

  const std::string path_;
  std::atomic<int64_t>* const offset_;
};

}  // namespace svcmap::testing
