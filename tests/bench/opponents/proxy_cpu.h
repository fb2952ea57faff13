// With --pin: the CPU for the programs that are measured. The load generator is on another one.
#pragma once

namespace svcmap::bench {

// From now on programs that are started with testing::ChildProcess or RunTool run there. Before the
// first of them.
void SetProxyCpu(int cpu);

// Moves the calling thread there, or does nothing if no CPU was set. For the child, between vfork
// and exec: makes one system call and touches no memory.
void MoveToProxyCpu();

// The calling thread to any CPU.
void MoveToCpu(int cpu);

}  // namespace svcmap::bench
