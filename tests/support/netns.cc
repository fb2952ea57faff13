#include "tests/support/netns.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace svcmap::testing {
namespace {

absl::Status BringLoopbackUp() {
  UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.ok()) return absl::ErrnoToStatus(errno, "socket for lo");
  ifreq request = {};
  std::strncpy(request.ifr_name, "lo", sizeof(request.ifr_name) - 1);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) {
    return absl::ErrnoToStatus(errno, "bring lo up");
  }
  return absl::OkStatus();
}

// Must run in a separate thread, because the function changes the thread's namespace. The returned
// descriptor keeps the namespace alive after the thread exits.
absl::StatusOr<UniqueFd> MakeNetworkNamespace() {
  if (::unshare(CLONE_NEWNET) != 0) return absl::ErrnoToStatus(errno, "unshare(CLONE_NEWNET)");
  UniqueFd fd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, "open /proc/thread-self/ns/net");
  if (absl::Status status = BringLoopbackUp(); !status.ok()) return status;
  return fd;
}

}  // namespace

absl::StatusOr<NetNs> NetNs::Create() {
  absl::StatusOr<UniqueFd> fd = absl::UnknownError("not run");
  std::thread([&fd] { fd = MakeNetworkNamespace(); }).join();
  if (!fd.ok()) return fd.status();
  return NetNs(*std::move(fd));
}

std::string NetNs::path() const { return absl::StrCat("/proc/", ::getpid(), "/fd/", fd_.get()); }

absl::Status NetNs::Enter() const {
  if (::setns(fd_.get(), CLONE_NEWNET) != 0) return absl::ErrnoToStatus(errno, "setns");
  return absl::OkStatus();
}

void NetNs::EnterOrDie() const {
  const absl::Status status = Enter();
  if (status.ok()) return;
  std::fprintf(stderr, "cannot enter network namespace: %s\n", status.ToString().c_str());
  std::abort();
}

absl::Status NetNs::WriteSysctl(const std::string& key, const std::string& value) const {
  return Run([&]() -> absl::Status {
    const std::string path = absl::StrCat("/proc/sys/", key);
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("open ", path));
    if (::write(file.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size())) {
      return absl::ErrnoToStatus(errno, absl::StrCat("write '", value, "' to ", path));
    }
    return absl::OkStatus();
  });
}

absl::Status NetNsAvailable() { return NetNs::Create().status(); }

}  // namespace svcmap::testing
