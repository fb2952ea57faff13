// Test network of one compared implementation. The client, the node, and the host of all pods have
// separate network namespaces. Only the node has rules and connection tracking.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/bench/cpu.h"
#include "tests/bench/packets/pod_server.h"
#include "tests/support/netns.h"
#include "tests/support/socket_address.h"
#include "tests/support/topology.h"

namespace svcmap::bench {

// Port of all endpoints, as in cluster.h.
inline constexpr uint16_t kPodPort = 8080;

class PacketWorld {
 public:
  // Creates the network. Every address of kEndpointPrefixes answers on kPodPort over TCP and UDP.
  // Clients have addresses from the node's pod CIDR, so no proxy mode masquerades their connections
  // to cluster IPs.
  static absl::StatusOr<std::unique_ptr<PacketWorld>> Create();

  const testing::NetNs& node() const { return topology_->node().netns(); }
  const testing::NetNs& client() const { return client_->netns(); }
  PodServer& pods() { return *pods_; }
  CpuPair cpus() const { return cpus_; }

  // Returns the next pair of source address and port. A pair is reused only after millions of
  // flows, so a packet never matches an old connection tracking entry. Not thread-safe.
  const testing::SocketAddress& NextSource();

  // Clears the connection tracking table of the node, so that the table does not overflow.
  absl::Status ForgetFlows();

 private:
  PacketWorld() = default;
  absl::Status Build();

  CpuPair cpus_ = ChooseCpus();
  std::unique_ptr<testing::Topology> topology_;
  const testing::Host* client_ = nullptr;
  std::unique_ptr<PodServer> pods_;
  std::vector<testing::SocketAddress> sources_;
  uint32_t next_source_ = 0;
};

// If the client and the server have separate CPUs, the pod server's thread spins instead of
// sleeping while this object exists.
class SpinningPods {
 public:
  explicit SpinningPods(PacketWorld& world) : world_(world) {
    world_.pods().set_spinning(world_.cpus().client >= 0);
  }
  ~SpinningPods() { world_.pods().set_spinning(false); }
  SpinningPods(const SpinningPods&) = delete;
  SpinningPods& operator=(const SpinningPods&) = delete;

 private:
  PacketWorld& world_;
};

}  // namespace svcmap::bench
