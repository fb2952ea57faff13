// svcmapd with a legitimate controller whose acknowledgement times are measured, and hostile peers
// beside it. Sizes are in MiB.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/hostile/wire.h"
#include "tests/support/agent.h"
#include "tests/support/certificates.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::hostile {

enum class Peer {
  kAnonymous,  // --insecure
  kUnlisted,   // A valid certificate that is in no allow list.
  kReaderUid,  // --allow-read-uid
  kWriterUid,  // --allow-write-uid
};
std::string NameOf(Peer peer);

// Duration of each attack: SVCMAP_HOSTILE_SECONDS, by default 1.
std::chrono::milliseconds AttackTime();
// With SVCMAP_HOSTILE_SECONDS the controller's p99 is checked; a shorter run is no measurement.
bool ChecksLatency();

class World {
 public:
  explicit World(bool tls);

  const testing::Agent& agent() const { return *agent_; }
  testing::Agent& agent() { return *agent_; }
  // The peer has another address, user or certificate name from now on, so that the limits of the
  // previous attack do not hide those of the next one.
  void NextPeer();
  std::unique_ptr<Wire> Connect(Peer peer) const;
  std::unique_ptr<Wire> ConnectToTlsPort() const;  // Without a handshake.
  double Rss() const;
  std::string Page(const std::string& path) const;  // Of the metrics server.

 private:
  testing::NetNs netns_;
  testing::TemporaryFolder folder_;
  testing::CertificateAuthority ca_{"CA of the hostile-peer suite"};
  uint32_t peer_ = 0;
  testing::KeyPair client_;
  uint16_t port_ = 0;
  uint16_t metrics_port_ = 0;
  std::unique_ptr<testing::Agent> agent_;
};

struct Figures {
  double start = 0, peak = 0, after = 0;
  double p50 = 0, p99 = 0, max = 0;  // Milliseconds from a batch to its ack.
  size_t batches = 0;
  size_t connections = 0;  // Of the attacker.
  std::string controller_problem;
};

// Runs `attack`, which returns the number of its connections, beside the controller.
Figures Measure(World& world, const std::function<size_t(Wire::Clock::time_point until)>& attack);

// Prints a row of a Markdown table, and checks the bounds.
void Check(const std::string& name, const Figures& figures);

}  // namespace svcmap::hostile
