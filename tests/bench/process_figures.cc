#include "tests/bench/process_figures.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace svcmap::bench {
namespace {

std::string ProcPath(pid_t pid, const std::string& file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

// "VmRSS:   1234 kB" and the like; 0 if it is not there.
int64_t ReadKib(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1));
  }
  return 0;
}

// The first `count` of utime, stime, cutime and cstime.
double SumOfTimes(pid_t pid, int count) {
  std::ifstream file(ProcPath(pid, "stat"));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;  // Up to utime, the 14th field.
  double sum = 0;
  for (double time = 0; count > 0 && fields >> time; --count) sum += time;
  return sum / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessMemory MemoryOf(pid_t pid) {
  const std::string status = ProcPath(pid, "status");
  return {ReadKib(status, "VmRSS"), ReadKib(status, "VmHWM")};
}

double CpuSecondsOf(pid_t pid) { return SumOfTimes(pid, 2); }
double CpuSecondsWithChildrenOf(pid_t pid) { return SumOfTimes(pid, 4); }

int64_t DescriptorsOf(pid_t pid) {
  std::error_code error;
  return std::distance(std::filesystem::directory_iterator(ProcPath(pid, "fd"), error),
                       std::filesystem::directory_iterator());
}

int64_t KernelMemoryKib() {
  int64_t total = 0;
  for (const char* name : {"Slab", "VmallocUsed", "Percpu"}) {
    total += ReadKib("/proc/meminfo", name);
  }
  return total;
}

}  // namespace svcmap::bench
