#include "tests/bench/process_figures.h"

#include <time.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace svcmap::bench {
namespace {

std::string ProcPath(pid_t pid, const std::string& file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

// Returns the number in a line such as "VmRSS:   1234 kB", or 0 if no such line exists.
int64_t ReadNumber(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1));
  }
  return 0;
}

}  // namespace

ProcessMemory MemoryOf(pid_t pid) {
  const std::string status = ProcPath(pid, "status");
  return {ReadNumber(status, "VmRSS"), ReadNumber(status, "VmHWM")};
}

int64_t WaitsOf(pid_t pid) {
  int64_t waits = 0;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(ProcPath(pid, "task"), error)) {
    waits += ReadNumber(thread.path() / "status", "voluntary_ctxt_switches");
  }
  return waits;
}

double CpuSecondsOf(pid_t pid) {
  clockid_t clock;
  timespec time = {};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

int64_t KernelMemoryKib() {
  int64_t total = 0;
  for (const char* name : {"Slab", "VmallocUsed", "Percpu"}) {
    total += ReadNumber("/proc/meminfo", name);
  }
  return total;
}

}  // namespace svcmap::bench
