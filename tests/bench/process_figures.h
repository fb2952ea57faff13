// Reads the resource usage of processes and of the kernel from /proc.
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

}  // namespace svcmap::bench
