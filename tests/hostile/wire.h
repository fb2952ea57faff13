// The client end of one connection over a Unix socket, TCP or TLS. Sends and receives any bytes,
// unlike a gRPC client, and does not implement HTTP/2.
#pragma once

#include <openssl/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "nft/base/unique_fd.h"
#include "tests/support/certificates.h"

namespace svcmap::hostile {

class Wire {
 public:
  using Clock = std::chrono::steady_clock;

  // Connects to a Unix socket with the effective uid `uid`, which this thread has only during the
  // call. Returns null if the connection was rejected.
  static std::unique_ptr<Wire> ConnectUnix(const std::string& path, uint32_t uid);
  // Connects to 127.0.0.1 from the address `source`, which is in host byte order.
  static std::unique_ptr<Wire> ConnectTcp(uint16_t port, uint32_t source);
  // Connects with TLS. Returns null if the handshake failed.
  static std::unique_ptr<Wire> ConnectTls(uint16_t port, uint32_t source,
                                          const testing::KeyPair& client);
  ~Wire();

  // Sends all bytes. Returns false if the peer closed the connection, or if the send buffer is full
  // after `deadline`.
  bool Send(std::string_view bytes, Clock::time_point deadline);
  // Returns the bytes that have arrived, without waiting. Updates closed().
  std::string Receive();
  bool closed() const { return closed_; }
  int Unread() const;  // Returns the number of bytes that Receive() would read from the socket.
  // Waits until the peer closes the connection, and discards received bytes. Returns false if the
  // connection is still open at `deadline`.
  bool AwaitClose(Clock::time_point deadline);

 private:
  explicit Wire(UniqueFd fd) : fd_(std::move(fd)) {}
  void Poll(short events, Clock::time_point deadline) const;

  UniqueFd fd_;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  bool closed_ = false;
};

}  // namespace svcmap::hostile
