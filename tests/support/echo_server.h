// TCP, UDP and SCTP servers in one namespace that answer with their name. One thread serves any
// number of (address, port) bindings, each with a name.
//
//   TCP   on accept: one line "NAME SOURCE_IP SOURCE_PORT\n"; then everything received is sent back
//   until the
//         client closes. So the same server serves Ask, TcpFlow and BulkTcp.
//   UDP   "who\n" is answered with that line, any other datagram with itself.
//   SCTP  INIT is answered with INIT-ACK whose State Cookie is that line. No association is ever
//   completed. By raw
//         socket, as this kernel has no SCTP: INITs for ports without a binding get no answer at
//         all, and several EchoServers with SCTP in one namespace do not disturb each other.
//
// Listen() and the counters are thread-safe. Sockets are closed by the destructor.
#ifndef SVCMAP_TESTS_SUPPORT_ECHO_SERVER_H_
#define SVCMAP_TESTS_SUPPORT_ECHO_SERVER_H_

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
#include "tests/support/answer.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

struct Binding {
  Protocol protocol = Protocol::kTcp;
  std::string ip;  // An address of the namespace. Not a wildcard: UDP answers must leave from it.
  uint16_t port = 0;
  std::string name;  // Without whitespace.
};

class EchoServer {
 public:
  // `netns` must outlive Listen() calls only.
  static absl::StatusOr<std::unique_ptr<EchoServer>> Start(const NetNs& netns);

  // As Start, listening already on `port` for all three protocols on both addresses.
  static absl::StatusOr<std::unique_ptr<EchoServer>> StartAll(const NetNs& netns,
                                                              const std::string& v4,
                                                              const std::string& v6, uint16_t port,
                                                              const std::string& name);

  ~EchoServer();  // Closes all sockets; open connections are reset.
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;

  // Connections are accepted when this returns. On error the previous bindings are kept.
  absl::Status Listen(const Binding& binding);
  absl::Status Listen(const std::vector<Binding>& bindings);

  // TCP connections, UDP datagrams and INITs answered so far.
  int64_t answered() const { return answered_; }
  // SCTP packets with a wrong CRC32c.
  int64_t sctp_bad_checksums() const { return sctp_bad_checksums_; }

 private:
  enum class Kind { kTcpListener, kTcpConnection, kUdp, kSctp };
  struct Socket {
    Kind kind;
    UniqueFd fd;
    std::string name;     // The answering name; unused for kSctp.
    std::string pending;  // kTcpConnection: not yet sent.
    bool v6 = false;      // kSctp.
  };

  explicit EchoServer(const NetNs& netns) : netns_(netns) {}
  void Loop();
  absl::Status ListenHere(const Binding& binding);
  absl::Status ListenSctp(const Binding& binding, bool v6);
  absl::Status Watch(Socket socket);

  // Called with mutex_ held.
  void Serve(Socket& socket);
  void Accept(Socket& listener);
  bool ServeConnection(Socket& connection);  // False: close it.
  void ServeUdp(Socket& socket);
  void ServeSctp(Socket& socket);

  const NetNs& netns_;
  UniqueFd epoll_;
  UniqueFd stop_;
  std::atomic<int64_t> answered_{0};
  std::atomic<int64_t> sctp_bad_checksums_{0};

  std::mutex mutex_;
  std::map<int, Socket> sockets_;  // By descriptor. Guarded by mutex_.
  std::map<std::pair<std::string, uint16_t>, std::string> sctp_names_;  // Guarded by mutex_.
  bool sctp_v4_open_ = false;                                           // Guarded by mutex_.
  bool sctp_v6_open_ = false;                                           // Guarded by mutex_.

  std::thread thread_;
};

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_SUPPORT_ECHO_SERVER_H_
