// Relays connections between clients and gRPC: limits connections, terminates TLS, checks HTTP/2
// frames, and forwards the bytes to gRPC over a socket pair. gRPC receives a connection only after
// the client has sent the HTTP/2 preface. Of trusted clients (Peer::trusted), gRPC receives the
// socket itself, and the frames are not checked.
//
// Uses two threads: one for TLS handshakes and prefaces, and one for established connections, so
// that handshakes do not delay established connections.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/access/access.h"
#include "api/screen/connection_limits.h"
#include "api/screen/frame_check.h"
#include "api/screen/rejections.h"
#include "api/screen/tls_server.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {

struct ScreenOptions {
  ConnectionLimitOptions connections;
  // Time limit for the TLS handshake and the HTTP/2 preface.
  std::chrono::milliseconds greet_within{10000};
  // Time limit for a client to read any of the bytes that wait for the client.
  std::chrono::milliseconds unread_within{30000};
  FrameLimits writers{.max_streams = 116};
  // Limits for clients that may only read or have no role.
  FrameLimits readers{.max_streams = 10,
                      .max_request_bytes = 64 * 1024,
                      .max_header_block_bytes = 8 * 1024,
                      .reset_burst = 20,
                      .resets_per_second = 10};
  // Passes one end of the connection's socket pair to gRPC. The thread for TLS handshakes calls
  // `hand_over`.
  std::function<void(UniqueFd, const Peer&)> hand_over;
  // Returns the peer with the given certificate names. The thread for TLS handshakes calls
  // `identify`.
  std::function<Peer(const CertificateNames&)> identify;
  std::unique_ptr<TlsServer> tls;  // TLS server, or null if no listener uses TLS.
};

class ScreenLoop;

class Screen {
 public:
  static absl::StatusOr<std::unique_ptr<Screen>> Start(ScreenOptions options,
                                                       Rejections& rejections);
  ~Screen();

  // Adds an accepted, non-blocking connection. Thread-safe.
  void Add(UniqueFd fd, const Peer& peer);
  // Adds a connection that starts with a TLS handshake. `address` is the peer's key until the
  // handshake is complete. Thread-safe.
  void AddTls(UniqueFd fd, const std::string& address);

  // Accepts no more connections, waits at most `grace` until gRPC has closed all connections, and
  // shuts down the remaining connections.
  void Drain(std::chrono::milliseconds grace);

  size_t connections() const { return limits_.connections(); }

 private:
  friend class ScreenLoop;

  Screen(ScreenOptions options, Rejections& rejections);
  void AddConnection(UniqueFd fd, const Peer& peer, bool tls);
  const FrameLimits& FrameLimitsOf(Role role) const {
    return role == Role::kWrite ? options_.writers : options_.readers;
  }
  std::string LimitText(Rejection reason) const;  // "limit=32", or empty.

  ScreenOptions options_;
  Rejections& rejections_;
  ConnectionLimits limits_;
  std::atomic<bool> closed_ = false;
  // Number of connections closed since memory was last returned to the system.
  std::atomic<size_t> closed_connections_ = 0;
  // relay_ must outlive greeter_, because greeter_ passes connections to relay_.
  std::unique_ptr<ScreenLoop> relay_;
  std::unique_ptr<ScreenLoop> greeter_;
};

}  // namespace svcmap::api
