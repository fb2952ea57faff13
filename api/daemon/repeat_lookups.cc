#include "api/daemon/repeat_lookups.h"

#include <array>
#include <charconv>
#include <utility>

namespace svcmap::api {

bool CanMissReplacedKeys(std::string_view release) {
  std::array<int, 3> version = {};  // For example 6.12.48. A missing part counts as 0.
  const char* position = release.data();
  const char* const end = position + release.size();
  for (int& number : version) {
    const auto [after, error] = std::from_chars(position, end, number);
    if (error != std::errc() || after == end || *after != '.') break;
    position = after + 1;
  }
  const auto [major, minor, patch] = version;
  if (major == 6 && minor == 12) return patch < 48;
  return std::pair(major, minor) < std::pair(6, 17);
}

}  // namespace svcmap::api
