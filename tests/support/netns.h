// An anonymous network namespace, held by a file descriptor and by nothing else: it has no name
// under /var/run/netns and disappears with the last descriptor, process and socket in it, even
// after SIGKILL.
//
// The calling thread never changes namespace: work happens in short helper threads. All const
// methods may be called from several threads at once. Sockets made inside Run() stay in the
// namespace and may be used from any thread afterwards.
#ifndef SVCMAP_TESTS_SUPPORT_NETNS_H_
#define SVCMAP_TESTS_SUPPORT_NETNS_H_

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
  // Makes a new empty namespace with `lo` up. Needs CAP_SYS_ADMIN (or a user namespace that has
  // it).
  static absl::StatusOr<NetNs> Create();

  NetNs(NetNs&&) noexcept = default;
  NetNs& operator=(NetNs&&) noexcept = default;

  int fd() const { return fd_.get(); }

  // "/proc/PID/fd/N": what ip(8) takes for `netns` in place of a name.
  std::string path() const;

  // Moves the calling thread into the namespace for good. For threads made for that purpose.
  absl::Status Enter() const;

  // Runs `fn` inside the namespace in a helper thread and returns its result. Aborts if the
  // namespace cannot be entered: Create() could, so that is a broken invariant.
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

  // Writes a sysctl of this namespace; `key` is its path below /proc/sys, like
  // "net/ipv4/ip_forward".
  absl::Status WriteSysctl(const std::string& key, const std::string& value) const;

 private:
  explicit NetNs(UniqueFd fd) : fd_(std::move(fd)) {}
  void EnterOrDie() const;

  UniqueFd fd_;
};

// OK where this process may make namespaces, else the reason. Packet tests call this first.
absl::Status NetNsAvailable();

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_SUPPORT_NETNS_H_
