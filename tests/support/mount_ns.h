// A mount namespace for file systems that only some processes of a test see, for example full or
// read-only file systems. As with NetNs, only a file descriptor keeps the namespace alive.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"

namespace svcmap::testing {

class MountNs {
 public:
  // Creates a namespace that starts with the mounts of the test. Requires CAP_SYS_ADMIN.
  static absl::StatusOr<MountNs> Create();

  // Mounts an empty tmpfs of `bytes`, rounded up to pages, at `path`. Creates `path` if it does not
  // exist.
  absl::Status MountTmpfs(const std::string& path, size_t bytes) const;

  // Runs `fn` in a helper thread in the namespace. Processes that `fn` starts inherit the
  // namespace.
  void Run(const std::function<void()>& fn) const;

 private:
  explicit MountNs(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace svcmap::testing
