// A client's end of one connection: bytes over a Unix socket, TCP or TLS. It knows nothing of
// HTTP/2 and, unlike gRPC, sends any bytes.
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

  // Null if the connection was refused. The thread's effective uid becomes `uid` meanwhile.
  static std::unique_ptr<Wire> ConnectUnix(const std::string& path, uint32_t uid);
  // To 127.0.0.1, from `source` in host order.
  static std::unique_ptr<Wire> ConnectTcp(uint16_t port, uint32_t source);
  // Null if the handshake failed.
  static std::unique_ptr<Wire> ConnectTls(uint16_t port, uint32_t source,
                                          const testing::KeyPair& client);
  ~Wire();

  // False if the peer closed the connection, or took nothing until `deadline`.
  bool Send(std::string_view bytes, Clock::time_point deadline);
  // Bytes that have arrived, without waiting. Sets closed().
  std::string Receive();
  bool closed() const { return closed_; }
  // Waits until the peer closes the connection, and discards what arrives. False: not by
  // `deadline`.
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
