// Stands between clients and gRPC: limits connections, terminates TLS, checks HTTP/2 frames, and
// relays the bytes to gRPC over a socket pair. gRPC sees a connection only after the client's
// HTTP/2 preface.
//
// Two threads: one for TLS handshakes and prefaces, one for established connections, so that
// handshakes do not delay those.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/screen/connection_limits.h"
#include "api/screen/frame_check.h"
#include "api/screen/peer.h"
#include "api/screen/rejections.h"
#include "api/screen/tls_server.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

struct ScreenOptions {
  ConnectionLimitOptions connections;
  std::chrono::milliseconds greet_within{10000};  // TLS handshake and HTTP/2 preface.
  uint32_t writer_streams = 116;                  // Open at one time, of a connection.
  // Of clients that may read or have no role.
  uint32_t reader_streams = 10;
  uint64_t reader_request_bytes = 64 * 1024;  // Of open calls together.
  uint32_t reader_header_block_bytes = 8 * 1024;
  // Gives gRPC its end of a connection. On the thread for handshakes.
  std::function<void(UniqueFd, const Peer&)> hand_over;
  // The peer with these certificate names. Likewise.
  std::function<Peer(const CertificateNames&)> identify;
  std::unique_ptr<TlsServer> tls;  // Null: no listener has TLS.
};

class ScreenLoop;

class Screen {
 public:
  static absl::StatusOr<std::unique_ptr<Screen>> Start(ScreenOptions options,
                                                       Rejections& rejections);
  ~Screen();

  // A connection that was accepted; it does not block. Any thread.
  void Add(UniqueFd fd, const Peer& peer);
  // The same, with a TLS handshake first. `address` is the peer's key until then.
  void AddTls(UniqueFd fd, const std::string& address);

  // Accepts no further connections, and waits at most `grace` until gRPC has closed the others.
  void Drain(std::chrono::milliseconds grace);

  size_t connections() const { return limits_.connections(); }

 private:
  friend class ScreenLoop;
  struct Connection;

  Screen(ScreenOptions options, Rejections& rejections);
  void AddConnection(UniqueFd fd, const Peer& peer, bool tls);
  FrameLimits FrameLimitsOf(Role role) const;
  std::string LimitText(Rejection reason) const;  // "limit=32", or empty.

  ScreenOptions options_;
  Rejections& rejections_;
  ConnectionLimits limits_;
  std::atomic<bool> closed_ = false;
  std::atomic<size_t> closed_connections_ = 0;  // Since memory was last returned to the system.
  std::unique_ptr<ScreenLoop> relay_;           // Outlives greeter_, which hands connections to it.
  std::unique_ptr<ScreenLoop> greeter_;
};

}  // namespace svcmap::api
