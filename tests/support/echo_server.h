// TCP, UDP and SCTP servers in one namespace that answer with their name. One thread handles all
// (address, port) bindings, each with a name.
//
// For TCP, the server accepts the connection and sends the line "NAME SOURCE_IP SOURCE_PORT\n". The
// server then returns all received bytes until the client closes the connection. Ask, TcpFlow and
// BulkTcp use the same server.
//
// For UDP, the server answers the datagram "who\n" with the line "NAME SOURCE_IP SOURCE_PORT\n",
// and every other datagram with its own contents.
//
// For SCTP, the server answers an INIT with an INIT-ACK whose State Cookie is the same line as for
// TCP. Associations are never completed. The server uses raw sockets, because the kernel has no
// SCTP. Therefore, an INIT to a port without a binding gets no answer, and several EchoServers can
// share a namespace.
//
// Listen() and the counters are thread-safe. The destructor closes the sockets.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/client.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

struct Binding {
  Protocol protocol = Protocol::kTcp;
  // An address of the namespace. Wildcards are not permitted, because UDP answers must leave from
  // the bound address.
  std::string ip;
  uint16_t port = 0;
  std::string name;  // A name without whitespace.
};

class EchoServer {
 public:
  // `netns` must outlive all calls of Listen(), but not the server.
  static absl::StatusOr<std::unique_ptr<EchoServer>> Start(const NetNs& netns);

  // Starts a server that listens on `port` of both addresses, with all three protocols.
  static absl::StatusOr<std::unique_ptr<EchoServer>> StartAll(const NetNs& netns,
                                                              const std::string& v4,
                                                              const std::string& v6, uint16_t port,
                                                              const std::string& name);

  ~EchoServer();  // Closes all sockets. Open connections are reset.
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;

  // When Listen() returns, the server accepts connections on the new bindings. If Listen() fails,
  // the previous bindings stay in effect.
  absl::Status Listen(const Binding& binding);
  absl::Status Listen(const std::vector<Binding>& bindings);

  // Number of TCP connections, UDP datagrams and INITs answered so far.
  int64_t answered() const { return answered_; }
  // Number of SCTP packets with a wrong CRC32c.
  int64_t sctp_bad_checksums() const { return sctp_bad_checksums_; }

 private:
  enum class Kind { kTcpListener, kTcpConnection, kUdp, kSctp };
  struct Socket {
    Kind kind;
    UniqueFd fd;
    std::string name;     // Name of the server in the answer. Unused for kSctp.
    std::string pending;  // Bytes of a kTcpConnection that are not sent yet.
    bool v6 = false;      // True for the IPv6 socket. Only used for kSctp.
  };

  explicit EchoServer(const NetNs& netns) : netns_(netns) {}
  void Loop();
  absl::Status ListenHere(const Binding& binding);
  absl::Status ListenSctp(const Binding& binding, bool v6);
  absl::Status Watch(Socket socket);

  // Handles one event of the socket. The caller holds mutex_.
  void Serve(Socket& socket);
  void Accept(Socket& listener);
  bool ServeConnection(Socket& connection);  // Returns false if the connection must be closed.
  void ServeUdp(Socket& socket);
  void ServeSctp(Socket& socket);

  const NetNs& netns_;
  UniqueFd epoll_;
  UniqueFd stop_;
  std::atomic<int64_t> answered_{0};
  std::atomic<int64_t> sctp_bad_checksums_{0};

  std::mutex mutex_;
  std::map<int, Socket> sockets_;  // Sockets by descriptor. Guarded by mutex_.
  // SCTP servers by address and port. Guarded by mutex_.
  std::map<std::pair<std::string, uint16_t>, std::string> sctp_names_;
  bool sctp_v4_open_ = false;  // Guarded by mutex_.
  bool sctp_v6_open_ = false;  // Guarded by mutex_.

  std::thread thread_;
};

}  // namespace svcmap::testing
