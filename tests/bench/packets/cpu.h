// CPUs for the client and the server in packet measurements.
#pragma once

namespace svcmap::bench {

struct CpuPair {
  int client = -1;  // CPU of the client. -1 permits any CPU.
  int server = -1;
};

// Returns the last permitted CPU for the client and the first permitted CPU for the server, or -1
// for both if only one CPU is permitted.
CpuPair ChooseCpus();

// Pins the calling thread and threads that it creates later to `cpu`. Does nothing if `cpu` is
// negative.
void PinThread(int cpu);

// Gives the calling thread real-time priority, if permitted. Intended for threads that mostly sleep
// and whose scheduling delay must not be measured.
void PreferThread();

}  // namespace svcmap::bench
