// The netlink sockets by which svcmapd locks its network namespace (api/daemon/lock.h). The kernel
// lists them per network namespace, for all users.
#pragma once

#include <linux/netfilter/nfnetlink.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap {

// The first byte of a lock socket's port id. The kernel and libnl assign port ids with other first
// bytes.
inline constexpr uint32_t kLockPortMark = 0x53000000;
inline constexpr uint32_t kLockPortMask = 0xff000000;
// This multicast group carries messages only for rules with "nftrace set 1".
inline constexpr int kLockGroup = NFNLGRP_NFTRACE;

// Returns the inodes of all lock sockets in the network namespace of this thread.
absl::StatusOr<std::vector<uint64_t>> LockSockets();

}  // namespace svcmap
