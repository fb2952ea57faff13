// Reads and writes tar archives compressed with gzip, in memory. Pure functions.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap::api {

struct ArchiveFile {
  std::string name;  // Path with at most 99 bytes.
  std::string content;
};

// Returns a .tar.gz file with these files. `time` is their modification time in Unix seconds.
std::string MakeArchive(const std::vector<ArchiveFile>& files, int64_t time);

// Returns the contents of all regular files by name. Accepts archives of MakeArchive that another
// tar program has packed again. Rejects archives that are larger than 4 GB when uncompressed.
absl::StatusOr<std::map<std::string, std::string>> ReadArchive(std::string_view bytes);

}  // namespace svcmap::api
