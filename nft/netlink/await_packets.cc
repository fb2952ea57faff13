#include "nft/netlink/await_packets.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace svcmap::nft {

void AwaitPackets() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

}  // namespace svcmap::nft
