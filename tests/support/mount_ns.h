// Mounts that only some processes of a test see: file systems that are full or read-only. As NetNs,
// held by a file descriptor and by nothing else.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"

namespace svcmap::testing {

class MountNs {
 public:
  // Sees what the test sees. Needs CAP_SYS_ADMIN.
  static absl::StatusOr<MountNs> Create();

  // An empty file system of `bytes`, rounded up to pages, at `path`, which is made if it is not
  // there.
  absl::Status MountTmpfs(const std::string& path, size_t bytes) const;
  absl::Status SetReadOnly(const std::string& path, bool read_only) const;

  // Runs `fn` in a helper thread; processes that it starts see these mounts.
  void Run(const std::function<void()>& fn) const;

 private:
  explicit MountNs(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace svcmap::testing
