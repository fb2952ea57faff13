// Test network of one compared implementation, and measurements of new flows in it. The client, the
// node, and the host of all pods have separate network namespaces. Only the node has rules and
// connection tracking.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "proxy/resolve/endpoints.h"
#include "tests/bench/process_figures.h"
#include "tests/support/netns.h"
#include "tests/support/socket_address.h"
#include "tests/support/topology.h"

namespace svcmap::bench {

// Simulates all pods of a cluster in one thread. Accepts TCP connections and echoes datagrams at
// every address of its namespace.
class PodServer {
 public:
  // Starts servers for IPv4 and IPv6. The thread runs on CPU `cpu`, or on any CPU if `cpu` is
  // negative.
  static absl::StatusOr<std::unique_ptr<PodServer>> Start(const testing::NetNs& netns,
                                                          uint16_t port, int cpu);
  ~PodServer();

  // If `spinning` is true, the thread spins instead of sleeping, because a wakeup takes longer than
  // the evaluation of most rulesets.
  void set_spinning(bool spinning);

 private:
  PodServer() = default;
  absl::Status Open(uint16_t port);
  absl::Status Watch(int fd);
  void Run(int cpu);
  void TakeConnections();
  void GiveBack();

  UniqueFd epoll_, wake_, tcp_, udp_;
  // Sockets of accepted connections. The server keeps a socket open long enough for the client to
  // close the connection first.
  std::array<UniqueFd, 256> taken_;
  size_t next_taken_ = 0;
  std::atomic<bool> spinning_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

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

// Time after which a flow counts as failed. The kernel retransmits a lost SYN after one second.
inline constexpr std::chrono::milliseconds kFlowPatience{2000};

// Latencies of many flows.
struct Latencies {
  std::vector<double> microseconds;  // Latencies of successful flows.
  int64_t failed = 0;

  // Returns the latencies of all flows. A failed flow counts as kFlowPatience, because otherwise a
  // compared implementation that loses slow flows would look fast.
  std::vector<double> WithFailures() const {
    std::vector<double> all = microseconds;
    all.insert(all.end(), static_cast<size_t>(failed),
               std::chrono::duration<double, std::micro>(kFlowPatience).count());
    return all;
  }

  int64_t count() const { return static_cast<int64_t>(microseconds.size()) + failed; }
};

struct FlowTarget {
  proxy::Protocol protocol = proxy::Protocol::kTcp;
  testing::SocketAddress destination;
};

// Maximum duration of a series of flows. A series that reaches the limit ends early, so that a
// broken network path cannot block a run.
inline constexpr std::chrono::seconds kSeriesLimit{30};

// Opens `count` new flows sequentially in one thread, each from a separate source port. For TCP,
// measures the duration of connect() and then resets the connection. For UDP, measures the
// round-trip time of one datagram.
absl::StatusOr<Latencies> MeasureFirstPackets(PacketWorld& world, const FlowTarget& target,
                                              int count);

struct ConnectionCount {
  int64_t made = 0;
  int64_t failed = 0;
  double seconds =
      0;  // Time spent on connections. Excludes the time to clear the connection tracking table.
  double per_second() const { return seconds > 0 ? static_cast<double>(made) / seconds : 0; }
};

// Counts TCP connections. Repeats the sequence socket, bind, connect and reset as fast as possible.
absl::StatusOr<ConnectionCount> CountConnections(PacketWorld& world, const FlowTarget& target,
                                                 std::chrono::duration<double> duration);

}  // namespace svcmap::bench
