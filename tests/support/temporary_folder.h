// A new directory in /tmp that the destructor deletes with its contents.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace svcmap::testing {

class TemporaryFolder {
 public:
  static absl::StatusOr<TemporaryFolder> Make();
  ~TemporaryFolder();
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
