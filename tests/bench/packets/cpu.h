// The CPUs of client and server in packet measurements.
#pragma once

namespace svcmap::bench {

struct CpuPair {
  int client = -1;  // -1 permits any CPU.
  int server = -1;
};

// Returns the last and the first permitted CPU. If only one CPU is permitted, returns -1 for both.
CpuPair ChooseCpus();

// Pins the calling thread and its future threads to `cpu`. Does nothing if `cpu` is negative.
void PinThread(int cpu);

// Gives the calling thread the highest priority, if permitted. For threads that mostly sleep and
// whose scheduling delay must not be measured.
void PreferThread();

}  // namespace svcmap::bench
