// Accepts TCP connections. One thread accepts on all sockets and passes each connection to a
// callback.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/daemon/accept_loop.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

// Address of a client. All addresses in an IPv6 /64 network count as one client, because a host
// usually has the whole network.
struct TcpClient {
  std::string address;  // "10.0.0.7", "2001:db8:1:2::/64"
  std::string name;     // Address and port, for messages.
};

class TcpListener {
 public:
  // The listener's thread calls Take with each new, non-blocking connection.
  using Take = std::function<void(UniqueFd connection, const TcpClient& client)>;

  // `addresses` have the form "host:port". A wildcard address of either family accepts IPv4 and
  // IPv6.
  static absl::StatusOr<std::unique_ptr<TcpListener>> Start(
      const std::vector<std::string>& addresses, Take take);
  // `take` is not called after the destructor.

  // Returns an error if an address cannot be bound, for example because another process listens on
  // the port. Does not listen.
  static absl::Status Check(const std::vector<std::string>& addresses);

 private:
  explicit TcpListener(Take take) : take_(std::move(take)) {}
  // Binds a socket for each address of the host.
  absl::Status Bind(const std::string& address);
  // Returns false if the process has no file descriptor left.
  bool AcceptAll(int socket);

  const Take take_;
  std::vector<UniqueFd> sockets_;
  std::unique_ptr<AcceptLoop> loop_;  // Stops before the sockets are closed.
};

}  // namespace svcmap::api
