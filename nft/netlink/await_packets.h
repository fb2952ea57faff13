// Waits for packets that are being processed by rules.
#pragma once

namespace svcmap::nft {

// Returns when all packets that any CPU was processing at the time of the call have left the rules.
// Usually takes 10 to 30 ms and no CPU time. Thread-safe.
//
// Hooks run in RCU read-side critical sections (nf_hook() in Linux's include/linux/netfilter.h),
// and membarrier(MEMBARRIER_CMD_GLOBAL) waits for an RCU grace period if there are several CPUs
// (Linux 4.3). If the kernel does not offer it (nohz_full, or a seccomp filter), waits for 100 ms.
void AwaitPackets();

}  // namespace svcmap::nft
