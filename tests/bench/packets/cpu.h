// Which CPUs the two ends of a measured path run on.
#pragma once

namespace svcmap::bench {

struct CpuPair {
  int client = -1;  // -1: any.
  int server = -1;
};

// The last and the first of those that this process may use; any for both if there is only one.
CpuPair ChooseCpus();

// Keeps the calling thread, and those it starts, on `cpu`; does nothing if that is negative.
void PinThread(int cpu);

// Lets the calling thread go before all others, where that is allowed: for threads that sleep most
// of the time, and whose own waiting for a CPU must not be measured.
void PreferThread();

}  // namespace svcmap::bench
