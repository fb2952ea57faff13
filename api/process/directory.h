// Lists directories of /proc, /sys and /run.
#pragma once

#include <filesystem>
#include <vector>

namespace svcmap::api {

// Returns the sorted paths of the entries of a directory. Returns fewer entries after an error, for
// example if the directory does not exist.
std::vector<std::filesystem::path> EntriesOf(const std::filesystem::path& directory);

}  // namespace svcmap::api
