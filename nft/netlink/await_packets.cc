#include "nft/netlink/await_packets.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace svcmap::nft {

void AwaitPackets() {
  // With one CPU, the call returns immediately.
  const bool several = get_nprocs() > 1;
  if (several && syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

}  // namespace svcmap::nft
