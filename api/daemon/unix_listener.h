// Accepts connections on Unix sockets and identifies clients by uid. gRPC cannot do this because it
// does not report the uid of connections that it accepts itself. One thread accepts on all sockets.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/daemon/accept_loop.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

class UnixListener {
 public:
  // Receives a non-blocking connection and the uid of the client. Called on the listener's thread.
  using Take = std::function<void(UniqueFd connection, uid_t uid)>;

  // Creates the sockets with permissions `mode`. Replaces the socket of a process that has exited.
  // Returns an error if another process listens on a path.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Start(const std::vector<std::string>& paths,
                                                             mode_t mode, Take take);
  ~UnixListener();  // Removes the sockets. `take` is not called afterwards.

 private:
  struct Socket {
    std::string path;
    UniqueFd fd;
    uint64_t inode = 0;  // Identifies the socket when it is removed: the path may have been reused.
  };

  explicit UnixListener(Take take) : take_(std::move(take)) {}
  absl::Status Listen(const std::string& path, mode_t mode);
  // Returns false if accepting failed, for example because no file descriptor is left.
  bool AcceptAll(int socket);

  const Take take_;
  std::vector<Socket> sockets_;
  std::unique_ptr<AcceptLoop> loop_;
};

}  // namespace svcmap::api
