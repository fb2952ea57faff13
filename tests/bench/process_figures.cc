#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/bench/process_figures.h"

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

namespace {

int proxy_cpu = -1;

}  // namespace

CpuPair ChooseCpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {};
  CpuPair pair;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    if (pair.server < 0) pair.server = cpu;
    pair.client = cpu;
  }
  if (pair.client == pair.server) return {};
  return pair;
}

void PinThread(int cpu) {
  if (cpu < 0) return;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  ::sched_setaffinity(0, sizeof(only), &only);
}

void PreferThread() {
  sched_param first = {};
  first.sched_priority = 1;
  ::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &first);
}

void SetProxyCpu(int cpu) {
  proxy_cpu = cpu;
  // testing::ChildProcess calls fork, which runs this handler. vfork does not run handlers.
  pthread_atfork(nullptr, nullptr, MoveToProxyCpu);
}

void MoveToProxyCpu() { PinThread(proxy_cpu); }

}  // namespace svcmap::bench
