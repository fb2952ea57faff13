// Allows only one svcmapd per network namespace, because two agents would overwrite each other's
// tables endlessly.
//
// The lock is a netlink socket with a port id and a multicast group that identify svcmapd. Only a
// process with CAP_NET_ADMIN can join the group, so other users cannot take the lock. The kernel
// lists the sockets per network namespace, so agents with different mount namespaces (a systemd
// unit and a pod with hostNetwork) detect each other.
#pragma once

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

// The lock is released when the descriptor is closed, including when the process is killed. Returns
// ALREADY_EXISTS if another agent holds the lock.
absl::StatusOr<UniqueFd> LockNetworkNamespace();

}  // namespace svcmap::api
