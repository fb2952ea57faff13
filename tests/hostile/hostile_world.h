// svcmapd with a legitimate controller and hostile peers. Measures the time from the controller's
// batches to their Acks. Sizes are in MiB.
#pragma once

#include <gtest/gtest.h>
#include <openssl/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "nft/base/unique_fd.h"
#include "tests/support/agent.h"
#include "tests/support/certificates.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::hostile {

// The client end of one connection over a Unix socket, TCP or TLS. Sends and receives any bytes,
// unlike a gRPC client, and does not implement HTTP/2.
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

// An attack on one connection. `run` returns when the connection is closed or when `until` has
// passed.
struct Attack {
  std::string name;
  std::function<void(Wire& wire, Wire::Clock::time_point until)> run;
};

// Returns all attacks. An attack starts after the connection is established, including the TLS
// handshake if TLS is used. Names are CamelCase.
const std::vector<Attack>& AllAttacks();

enum class Peer {
  kAnonymous,  // Peer of an agent with --insecure.
  kUnlisted,   // Client with a valid certificate that is not in any allow list.
  kReaderUid,  // User whose uid is listed in --allow-read-uid.
  kWriterUid,  // User whose uid is listed in --allow-write-uid.
  kRoot,       // Trusted client, whose frames svcmapd does not check.
};
std::string NameOf(Peer peer);

// Returns the duration of each attack: SVCMAP_HOSTILE_SECONDS, or 1 s by default.
std::chrono::milliseconds AttackTime();
// Returns true if SVCMAP_HOSTILE_SECONDS is set. Shorter runs do not check the controller's p99
// latency, because they give no reliable measurement.
bool ChecksLatency();

class World {
 public:
  explicit World(bool tls);

  const testing::Agent& agent() const { return *agent_; }
  testing::Agent& agent() { return *agent_; }
  // Changes the peer's address, user or certificate name, so that limits that the previous attack
  // reached do not affect the next attack.
  void NextPeer();
  std::unique_ptr<Wire> Connect(Peer peer) const;
  // Connects as an anonymous peer from address number `number` of a range that no other peer uses.
  std::unique_ptr<Wire> ConnectFrom(uint32_t number) const;
  std::unique_ptr<Wire> ConnectToTlsPort() const;  // Connects to the TLS port without a handshake.
  double Rss() const;

 private:
  testing::NetNs netns_;
  testing::TemporaryFolder folder_;
  testing::CertificateAuthority ca_{"CA of the hostile-peer suite"};
  uint32_t peer_ = 0;
  testing::KeyPair client_;
  uint16_t port_ = 0;
  std::unique_ptr<testing::Agent> agent_;
};

struct Figures {
  double start = 0, peak = 0, after = 0;
  double p50 = 0, p99 = 0, max = 0;  // Time from a batch to its Ack in milliseconds.
  size_t batches = 0;
  size_t connections = 0;  // Number of the attacker's connections.
  std::string controller_problem;
};

// Runs `attack` in parallel with the controller. `attack` returns the number of its connections.
Figures Measure(World& world, const std::function<size_t(Wire::Clock::time_point until)>& attack);

// Prints the figures as a row of a Markdown table and checks their bounds.
void Check(const std::string& name, const Figures& figures);

}  // namespace svcmap::hostile
