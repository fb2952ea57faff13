#include "tests/support/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>

namespace svcmap::testing {

absl::StatusOr<TemporaryFolder> TemporaryFolder::Make() {
  std::string path = "/tmp/svcmap-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return absl::ErrnoToStatus(errno, "make a folder in /tmp");
  return TemporaryFolder(path);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace svcmap::testing
