// TCP sockets. One thread accepts on all of them and hands the connections on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

// Address of a client. Clients of one IPv6 /64 network are one client, because a host usually has
// the whole network.
struct TcpClient {
  std::string address;  // "10.0.0.7", "2001:db8:1:2::/64"
  std::string name;     // With the port, for messages.
};

class TcpListener {
 public:
  // A connection that does not block. On the listener's thread.
  using Take = std::function<void(UniqueFd connection, const TcpClient& client)>;

  // `addresses`: "host:port". A wildcard address of either family accepts IPv4 and IPv6.
  static absl::StatusOr<std::unique_ptr<TcpListener>> Start(
      const std::vector<std::string>& addresses, Take take);
  ~TcpListener();  // No more calls of `take` afterwards.

 private:
  explicit TcpListener(Take take) : take_(std::move(take)) {}
  absl::Status Listen(const std::string& address);
  void Run();
  // False if the process has no file descriptor left.
  bool AcceptAll(int socket);

  const Take take_;
  std::vector<UniqueFd> sockets_;
  UniqueFd stop_;  // An eventfd.
  std::thread thread_;
};

}  // namespace svcmap::api
