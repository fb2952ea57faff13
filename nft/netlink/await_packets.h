// Waits for packets that are being processed by rules.
#pragma once

namespace svcmap::nft {

// Returns when all packets that any CPU was processing in a hook at the time of the call have left
// this hook. Usually takes 10 to 30 ms and no CPU time. Thread-safe.
//
// Hooks run in RCU read-side critical sections (nf_hook() in Linux's include/linux/netfilter.h),
// and membarrier(MEMBARRIER_CMD_GLOBAL) waits for an RCU grace period (Linux 4.3; before Linux 5.0
// not for interrupted processes of preemptible kernels). With one CPU, or if the kernel does not
// offer the call (nohz_full, or a seccomp filter), waits for 100 ms.
void AwaitPackets();

}  // namespace svcmap::nft
