// A new directory in /tmp that the destructor deletes with its contents.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace svcmap::testing {

class TemporaryFolder {
 public:
  static absl::StatusOr<TemporaryFolder> Make() {
    std::string path = "/tmp/svcmap-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
      return absl::ErrnoToStatus(errno, "make a folder in /tmp");
    }
    return TemporaryFolder(path);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace svcmap::testing
