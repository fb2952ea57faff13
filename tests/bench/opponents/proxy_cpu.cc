#include "tests/bench/opponents/proxy_cpu.h"

#include <pthread.h>
#include <sched.h>

namespace svcmap::bench {
namespace {

int proxy_cpu = -1;

}  // namespace

void SetProxyCpu(int cpu) {
  proxy_cpu = cpu;
  // testing::ChildProcess calls fork, which runs this handler. vfork does not run handlers.
  pthread_atfork(nullptr, nullptr, MoveToProxyCpu);
}

void MoveToProxyCpu() {
  if (proxy_cpu >= 0) MoveToCpu(proxy_cpu);
}

void MoveToCpu(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
}

}  // namespace svcmap::bench
