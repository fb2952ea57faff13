// The network namespace from which `svcmapctl check` connects.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

class Place {
 public:
  static absl::StatusOr<Place> Own();  // The namespace of this process.
  // A name in /run/netns, or a path that contains a slash.
  static absl::StatusOr<Place> Named(const std::string& name);
  static absl::StatusOr<Place> OfProcess(pid_t pid);

  // True if this is the namespace of this process.
  bool is_own() const { return is_own_; }

  // Runs `work` in a new thread inside the namespace. Requires CAP_SYS_ADMIN unless is_own().
  absl::Status Run(const std::function<void()>& work) const;

 private:
  static absl::StatusOr<Place> Open(const std::string& path);

  UniqueFd fd_;
  bool is_own_ = true;
};

}  // namespace svcmap::api
