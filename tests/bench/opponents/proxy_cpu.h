// Selects the CPU of the measured processes if --pin is set. The load generator uses another CPU.
#pragma once

namespace svcmap::bench {

// Sets the CPU of all processes started with testing::ChildProcess or RunTool. SetProxyCpu must be
// called before the first process starts.
void SetProxyCpu(int cpu);

// Moves the calling thread to the CPU set with SetProxyCpu. Does nothing if no CPU was set. Safe in
// the child between vfork and exec, because the function only makes one system call.
void MoveToProxyCpu();

// Restricts the calling thread to one CPU.
void MoveToCpu(int cpu);

}  // namespace svcmap::bench
