// Unix sockets whose peers are known by uid: gRPC, when it accepts by itself, does not tell it. One
// thread accepts on all of them and hands the connections on.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

class UnixListener {
 public:
  // A connection, not blocking, and who made it. On the listener's thread.
  using Take = std::function<void(UniqueFd connection, uid_t uid)>;

  // Sockets have `mode` from the start; one that a dead process left is replaced, one that answers
  // is an error.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Start(const std::vector<std::string>& paths,
                                                             mode_t mode, Take take);
  ~UnixListener();  // No more calls of `take` afterwards; removes the sockets.

 private:
  struct Socket {
    std::string path;
    UniqueFd fd;
    uint64_t inode = 0;  // Of the socket we made; another one there is not ours to remove.
  };

  explicit UnixListener(Take take) : take_(std::move(take)) {}
  absl::Status Listen(const std::string& path, mode_t mode);
  void Run();
  // False if the kernel has no descriptor for us just now.
  bool AcceptAll(int socket);

  const Take take_;
  std::vector<Socket> sockets_;
  UniqueFd stop_;  // An eventfd.
  std::thread thread_;
};

}  // namespace svcmap::api
