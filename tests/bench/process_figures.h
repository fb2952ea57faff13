// What a process, or the whole kernel, uses, as /proc tells it.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace svcmap::bench {

struct ProcessMemory {
  int64_t rss_kib = 0;
  int64_t peak_kib = 0;
};
ProcessMemory MemoryOf(pid_t pid);

double CpuSecondsOf(pid_t pid);  // User and system.
// The same with those of all children that it waited for.
double CpuSecondsWithChildrenOf(pid_t pid);
int64_t DescriptorsOf(pid_t pid);  // Open ones.

// Slab, vmalloc and per-CPU memory of the whole kernel; differences tell what our tables take.
int64_t KernelMemoryKib();

}  // namespace svcmap::bench
