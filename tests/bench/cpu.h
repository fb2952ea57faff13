// CPUs of the load generator and of the measured processes, and of clients and servers.
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

// Sets the CPU of all processes started with testing::ChildProcess or RunTool. SetProxyCpu must be
// called before the first process starts.
void SetProxyCpu(int cpu);

// Moves the calling thread to the CPU set with SetProxyCpu. Does nothing if no CPU was set. Safe in
// the child between vfork and exec, because the function only makes one system call.
void MoveToProxyCpu();

}  // namespace svcmap::bench
