// Forwards TCP connections from a network namespace to a server that only the namespace of this
// process can reach.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/netns.h"

namespace svcmap::bench {

class TcpForwarder {
 public:
  // Listens on a free port of 127.0.0.1 in `netns` and forwards each connection to `host` (a name
  // or address) and `port`.
  static absl::StatusOr<std::unique_ptr<TcpForwarder>> Start(const testing::NetNs& netns,
                                                             const std::string& host,
                                                             const std::string& port);
  ~TcpForwarder();  // Closes all forwarded connections.

  uint16_t port() const { return port_; }

 private:
  struct Connection {
    UniqueFd client, server;
    std::thread up, down;
  };

  TcpForwarder(UniqueFd listener, uint16_t port, std::string host, std::string server_port);
  void Accept();
  // Connects to the server. Returns an invalid descriptor if the server does not answer.
  UniqueFd Connect() const;

  const UniqueFd listener_;
  const uint16_t port_;
  const std::string host_, server_port_;
  // Forwarded connections. Only the forwarder's thread may access this member while the thread is
  // running.
  std::vector<std::unique_ptr<Connection>> connections_;
  std::thread thread_;
};

}  // namespace svcmap::bench
