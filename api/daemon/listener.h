// Accepts connections of API clients over TCP and on Unix sockets. svcmapd accepts these
// connections itself because gRPC does not report the uid of its clients. One thread accepts on all
// sockets.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/access/access.h"
#include "api/health/event.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

class Listener {
 public:
  // The listener's thread calls these functions with each new, non-blocking connection. `client` is
  // the address of the client, such as "10.0.0.7" or "2001:db8:1:2::/64". All addresses in an IPv6
  // /64 network count as one client, because a host usually has the whole network.
  using TakeTcp = std::function<void(UniqueFd connection, const std::string& client)>;
  using TakeUnix = std::function<void(UniqueFd connection, uid_t uid)>;

  // A TCP wildcard address of either family accepts IPv4 and IPv6. Creates Unix sockets with
  // permissions `mode`, and replaces the socket of a process that has exited. Returns an error if
  // another process listens on an address.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(
      const std::vector<ListenAddress>& addresses, mode_t mode, TakeTcp take_tcp,
      TakeUnix take_unix);
  // Returns the error that Start would return because an address is in use or invalid. Does not
  // listen, and leaves Unix sockets unchanged.
  static absl::Status Check(const std::vector<ListenAddress>& addresses);
  ~Listener();  // Removes the Unix sockets. The callbacks are not called afterwards.

 private:
  struct Socket {
    UniqueFd fd;       // Until `accepting` owns the descriptor.
    std::string path;  // Of a Unix socket. Empty for TCP.
    // Identifies the Unix socket before its removal, because the path may have been reused.
    ino_t inode = 0;
    std::optional<AcceptEvent> accepting;
  };

  Listener(TakeTcp take_tcp, TakeUnix take_unix);
  // Binds a socket for each address of the host in "host:port".
  absl::Status BindTcp(const std::string& address);
  absl::Status BindUnix(const std::string& path, mode_t mode);
  void AcceptTcp(UniqueFd connection, const sockaddr_storage& from);
  void AcceptUnix(UniqueFd connection, const sockaddr_storage& from);

  const TakeTcp take_tcp_;
  const TakeUnix take_unix_;
  EventThread thread_;
  std::list<Socket> sockets_;
};

}  // namespace svcmap::api
