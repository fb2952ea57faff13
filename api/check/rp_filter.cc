#include "api/check/rp_filter.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace svcmap::api {
namespace {

int ReadRpFilter(const std::filesystem::path& directory) {
  int value = 0;
  std::ifstream(directory / "rp_filter") >> value;
  return value;
}

}  // namespace

uint64_t NetstatCounter(std::string_view page, std::string_view name) {
  std::istringstream lines{std::string(page)};
  // The page has pairs of lines: names, then values.
  for (std::string names, values; std::getline(lines, names) && std::getline(lines, values);) {
    if (!names.starts_with("TcpExt:")) continue;
    std::istringstream keys(names), numbers(values);
    std::string key, number;
    while (keys >> key && numbers >> number) {
      if (key == name) return std::strtoull(number.c_str(), nullptr, 10);
    }
  }
  return 0;
}

uint64_t RpFilterDrops() {
  std::ostringstream page;
  page << std::ifstream("/proc/self/net/netstat").rdbuf();
  return NetstatCounter(page.str(), "IPReversePathFilter");
}

std::vector<std::string> StrictInterfaces() {
  const std::filesystem::path root = "/proc/sys/net/ipv4/conf";
  const int all = ReadRpFilter(root / "all");
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name == "all" || name == "default" || name == "lo") continue;
    // The kernel uses the larger value of "all" and of the interface.
    if (std::max(all, ReadRpFilter(entry->path())) == 1) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace svcmap::api
