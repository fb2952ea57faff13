// Accepts connections on Unix sockets and identifies clients by uid. svcmapd accepts these
// connections itself because gRPC does not report the uid of its clients. One thread accepts on all
// sockets.
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
  // The listener's thread calls Take with each new, non-blocking connection and the uid of the
  // client.
  using Take = std::function<void(UniqueFd connection, uid_t uid)>;

  // Creates the sockets with permissions `mode`. Replaces the socket of a process that has exited.
  // Returns an error if another process listens on a path.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Start(const std::vector<std::string>& paths,
                                                             mode_t mode, Take take);
  // Returns an error if another process listens on a path, or if a path is not a socket.
  static absl::Status Check(const std::vector<std::string>& paths);
  ~UnixListener();  // Removes the sockets. `take` is not called afterwards.

 private:
  struct Socket {
    std::string path;
    UniqueFd fd;
    // Identifies the socket before its removal, because the path may have been reused.
    uint64_t inode = 0;
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
