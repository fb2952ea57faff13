#include "api/metrics/process_figures.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>

namespace svcmap::api {
namespace {

uint64_t SoftLimit(int resource) {
  rlimit limit = {};
  getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  return limit.rlim_cur;
}

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Counts the open file descriptors, except for the descriptor that reads the directory.
uint64_t OpenDescriptors() {
  std::error_code error;
  uint64_t count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    ++count;
  }
  return count > 0 ? count - 1 : 0;
}

double BootTime() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double time = 0;
    if (word == "btime" && file >> time) return time;
  }
  return 0;
}

// Reads the start time in clock ticks since boot, virtual memory in bytes and resident memory in
// pages from fields 22 to 24 of /proc/self/stat. Field 2, the name of the executable in
// parentheses, may contain spaces.
void ReadStat(ProcessFigures& figures) {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  uint64_t pages = 0;
  if (!(fields >> ticks >> figures.virtual_bytes >> pages)) return;
  figures.resident_bytes = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  figures.start_time = BootTime() + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessFigures ReadProcessFigures() {
  ProcessFigures figures;
  ReadStat(figures);
  figures.cpu_seconds = CpuSeconds();
  figures.max_virtual_bytes = SoftLimit(RLIMIT_AS);
  figures.open_fds = OpenDescriptors();
  figures.max_fds = SoftLimit(RLIMIT_NOFILE);
  return figures;
}

}  // namespace svcmap::api
