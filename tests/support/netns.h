// An anonymous network namespace that only file descriptors, processes and sockets keep alive. The
// namespace has no name under /var/run/netns, and the kernel deletes the namespace when the last
// reference is closed, even after SIGKILL.
//
// The calling thread never changes its own namespace. Short-lived helper threads enter the
// namespace instead of the calling thread. All const methods may be called from several threads at
// the same time. Sockets created inside Run() stay in the namespace, and any thread may use these
// sockets afterwards.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"

namespace svcmap::testing {

class NetNs {
 public:
  // Creates an empty namespace in which `lo` is up. Requires CAP_SYS_ADMIN, or a user namespace
  // with this capability.
  static absl::StatusOr<NetNs> Create();

  NetNs(NetNs&&) noexcept = default;
  NetNs& operator=(NetNs&&) noexcept = default;

  int fd() const { return fd_.get(); }

  // Returns "/proc/PID/fd/N", which ip(8) accepts instead of a namespace name.
  std::string path() const;

  // Moves the calling thread into the namespace permanently. Call Enter() only in threads created
  // for this purpose.
  absl::Status Enter() const;

  // Runs `fn` inside the namespace in a helper thread and returns the result of `fn`. Aborts if the
  // thread cannot enter the namespace, which is unexpected because Create() has entered the
  // namespace once.
  template <typename Fn>
  std::invoke_result_t<Fn&> Run(Fn&& fn) const {
    using Result = std::invoke_result_t<Fn&>;
    if constexpr (std::is_void_v<Result>) {
      std::thread([&] {
        EnterOrDie();
        fn();
      }).join();
    } else {
      std::optional<Result> result;
      std::thread([&] {
        EnterOrDie();
        result.emplace(fn());
      }).join();
      return *std::move(result);
    }
  }

  // Writes a sysctl of this namespace. `key` is the path below /proc/sys, for example
  // "net/ipv4/ip_forward".
  absl::Status WriteSysctl(const std::string& key, const std::string& value) const;

 private:
  explicit NetNs(UniqueFd fd) : fd_(std::move(fd)) {}
  void EnterOrDie() const;

  UniqueFd fd_;
};

// Returns OK if this process may create network namespaces, otherwise an error with the reason.
// Packet tests call this function first.
absl::Status NetNsAvailable();

// A mount namespace for file systems that only some processes of a test see, for example full or
// read-only file systems. As with NetNs, only a file descriptor keeps the namespace alive.
class MountNs {
 public:
  // Creates a namespace that starts with the mounts of the test. Requires CAP_SYS_ADMIN.
  static absl::StatusOr<MountNs> Create();

  // Mounts an empty tmpfs of `bytes`, rounded up to pages, at `path`. Creates `path` if it does not
  // exist.
  absl::Status MountTmpfs(const std::string& path, size_t bytes) const;

  // Runs `fn` in a helper thread in the namespace. Processes that `fn` starts inherit the
  // namespace.
  void Run(const std::function<void()>& fn) const;

 private:
  explicit MountNs(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace svcmap::testing
