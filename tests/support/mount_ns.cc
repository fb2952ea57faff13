#include "tests/support/mount_ns.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"

namespace svcmap::testing {
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
