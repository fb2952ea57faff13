#include "api/daemon/lock.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string_view>

#include "nft/base/status.h"

namespace svcmap::api {

// The kernel keeps abstract socket names per network namespace.
absl::StatusOr<UniqueFd> LockNetworkNamespace() {
  constexpr std::string_view kName = "svcmapd.lock";
  UniqueFd lock(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!lock.ok()) return ErrnoStatus(errno, "make a lock");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::copy(kName.begin(), kName.end(), address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kName.size());
  if (bind(lock.get(), reinterpret_cast<sockaddr*>(&address), size) == 0) return lock;
  if (errno != EADDRINUSE) return ErrnoStatus(errno, "lock the network namespace");
  return absl::AlreadyExistsError("another svcmapd programs this network namespace; stop it first");
}

}  // namespace svcmap::api
