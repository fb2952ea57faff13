#include "api/daemon/lock.h"

#include <linux/filter.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "nft/base/lock_sockets.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

constexpr int kPortAttempts = 64;
// If two agents start at the same time, each agent finds the other agent's socket, so both agents
// retry.
constexpr int kAttempts = 5;
constexpr int kMaxPauseMilliseconds = 100;

absl::Status Failed(const std::string& call) {
  return ErrnoStatus(errno, "lock the network namespace: " + call);
}

// Binds to a random port id that begins with kLockPortMark, because another user may have bound any
// fixed port id.
absl::Status BindMarked(int fd, std::random_device& random) {
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
    address.nl_pid = kLockPortMark | (random() & ~kLockPortMask);
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
      return absl::OkStatus();
    }
    if (errno != EADDRINUSE) break;
  }
  return Failed("bind");
}

absl::StatusOr<UniqueFd> MakeSocket(std::random_device& random) {
  UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  if (!fd.ok()) return Failed("socket");
  if (const absl::Status bound = BindMarked(fd.get(), random); !bound.ok()) return bound;
  // Makes the kernel drop all messages, because no thread reads from this socket.
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog filter = {1, &drop};
  if (setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) != 0) {
    return Failed("attach a filter");
  }
  if (setsockopt(fd.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &kLockGroup, sizeof(kLockGroup)) !=
      0) {
    return Failed("join a multicast group");
  }
  return fd;
}

// Returns true if the network namespace has a lock socket other than `own`.
absl::StatusOr<bool> HasOther(int own) {
  struct stat info = {};
  if (fstat(own, &info) != 0) return Failed("stat");
  const absl::StatusOr<std::vector<uint64_t>> sockets = LockSockets();
  if (!sockets.ok()) return Annotate(sockets.status(), "lock the network namespace");
  bool found_own = false;
  for (const uint64_t inode : *sockets) {
    if (inode != info.st_ino) return true;
    found_own = true;
  }
  if (found_own) return false;
  return absl::InternalError(
      "lock the network namespace: /proc does not list the sockets of this process");
}

}  // namespace

absl::StatusOr<UniqueFd> LockNetworkNamespace() {
  std::random_device random;
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<UniqueFd> lock = MakeSocket(random);
    if (!lock.ok()) return lock;
    const absl::StatusOr<bool> other = HasOther(lock->get());
    if (!other.ok()) return other.status();
    if (!*other) return lock;
    if (attempt == kAttempts) break;
    lock->Close();
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + random() % kMaxPauseMilliseconds));
  }
  return absl::AlreadyExistsError(
      "another svcmapd already programs this network namespace; stop the other svcmapd first");
}

}  // namespace svcmap::api
