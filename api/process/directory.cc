#include "api/process/directory.h"

#include <algorithm>
#include <system_error>

namespace svcmap::api {

std::vector<std::filesystem::path> EntriesOf(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;  // An entry may disappear during the iteration.
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(entry->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace svcmap::api
