#include "tests/bench/cpu.h"

#include <pthread.h>
#include <sched.h>

namespace svcmap::bench {
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
