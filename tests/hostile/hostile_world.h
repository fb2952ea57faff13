// svcmapd with a legitimate controller and hostile peers. Measures the time from the controller's
// batches to their Acks. Sizes are in MiB.
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
