#include "nft/base/lock_sockets.h"

#include <linux/netlink.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

#include "nft/base/status.h"

namespace svcmap {
namespace {

constexpr char kSockets[] = "/proc/thread-self/net/netlink";
// The group's bit mask, as in kSockets.
constexpr uint32_t kGroups = uint32_t{1} << (kLockGroup - 1);

}  // namespace

absl::StatusOr<std::vector<uint64_t>> LockSockets() {
  errno = 0;
  std::ifstream sockets(kSockets);
  if (!sockets) return ErrnoStatus(errno, std::string("open ") + kSockets);
  std::vector<uint64_t> found;
  std::string line;
  std::getline(sockets, line);  // Skips the line with the column names.
  while (std::getline(sockets, line)) {
    // Columns: sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode
    std::istringstream fields(line);
    std::string skipped;
    int protocol = 0;
    uint32_t port = 0, groups = 0;
    uint64_t inode = 0;
    fields >> skipped >> protocol >> port >> std::hex >> groups >> std::dec;
    for (int i = 0; i < 5; ++i) fields >> skipped;
    fields >> inode;
    if (!fields || protocol != NETLINK_NETFILTER) continue;
    if ((port & kLockPortMask) == kLockPortMark && groups == kGroups) found.push_back(inode);
  }
  return found;
}

}  // namespace svcmap
