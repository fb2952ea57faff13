// Resource usage of processes and of the kernel, and the CPUs on which processes run.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace svcmap::bench {

struct ProcessMemory {
  int64_t rss_kib = 0;
  int64_t peak_kib = 0;
};
ProcessMemory MemoryOf(pid_t pid);

// Returns how often threads of the process have waited for an event so far.
int64_t WaitsOf(pid_t pid);

double CpuSecondsOf(pid_t pid);  // Returns user and system time with nanosecond resolution.

// Returns the kernel's slab, vmalloc and per-CPU memory. The difference between two results shows
// the memory usage of tables.
int64_t KernelMemoryKib();

// CPUs of the load generator and of the measured processes, and of clients and servers.
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
