#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/support/netns.h"

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

namespace {

// Must run in a separate thread, because the function changes the thread's namespace.
absl::StatusOr<UniqueFd> MakeMountNamespace() {
  if (::unshare(CLONE_FS | CLONE_NEWNS) != 0) return absl::ErrnoToStatus(errno, "unshare mounts");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return absl::ErrnoToStatus(errno, "make mounts private");
  }
  UniqueFd fd(::open("/proc/thread-self/ns/mnt", O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, "open /proc/thread-self/ns/mnt");
  return fd;
}

}  // namespace

absl::StatusOr<MountNs> MountNs::Create() {
  absl::StatusOr<UniqueFd> fd = absl::UnknownError("not run");
  std::thread([&fd] { fd = MakeMountNamespace(); }).join();
  if (!fd.ok()) return fd.status();
  return MountNs(*std::move(fd));
}

void MountNs::Run(const std::function<void()>& fn) const {
  std::thread([&] {
    if (::unshare(CLONE_FS) != 0 || ::setns(fd_.get(), CLONE_NEWNS) != 0) {
      // A failure is unexpected, because Create() has already entered the namespace.
      std::perror("cannot enter mount namespace");
      std::abort();
    }
    fn();
  }).join();
}

absl::Status MountNs::MountTmpfs(const std::string& path, size_t bytes) const {
  absl::Status status;
  Run([&] {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    const std::string options = absl::StrCat("size=", bytes);
    if (::mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()) != 0) {
      status = absl::ErrnoToStatus(errno, "mount a tmpfs at " + path);
    }
  });
  return status;
}

}  // namespace svcmap::testing
