// Sends tens of thousands of new UDP flows per second to counted Services, and counts the lost
// packets.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/agent.h"
#include "tests/support/builders.h"
#include "tests/support/netns.h"
#include "tests/support/topology.h"

namespace svcmap::testing {

inline constexpr char kCountedSources[] = "10.244.128.0/17";  // Addresses of the clients.
inline constexpr uint32_t kFirstCountedSource = 0x0af48000;   // 10.244.128.0
inline constexpr int kCountedSourceCount = 32768;
inline constexpr char kCountedEndpoints[] = "10.244.1.128/25";
inline constexpr char kOtherNode[] = "n2";
// The load balancer IPs of counted Services.
inline constexpr char kCountedLoadBalancers[] = "203.0.113.0/24";
inline constexpr uint16_t kCountedPort = 53;
inline constexpr int kCountedAffinitySeconds = 60;

// Returns 10.244.1.(128 + n). `n` must be below 128.
std::string CountedEndpoint(int n);

// A Service whose packets the packet-loss tests count.
//
// Clients send all datagrams of a Service from the Service's source port, and each Service has its
// own target port. The node changes neither of these ports. Therefore, the source port of a
// datagram identifies the Service that the client used, and the destination port identifies the
// Service that the node selected. Clients of a Service with a port range use the target port,
// because the node does not change the ports of ranges.
struct CountedService {
  int number = 0;  // Number of the Service, which determines the address and the ports.
  std::string key;
  std::set<int> endpoints;  // Arguments of CountedEndpoint.
  std::string node = kAgentNode;
  // More endpoints, on another node. No client may reach them.
  std::set<int> remote_endpoints = {};
  int affinity_seconds = 0;  // 0: no session affinity.
  // True: clients use a load balancer IP instead of the cluster IP.
  bool load_balancer = false;
  // Number of source ranges that do not contain the clients. If it is not 0, one more range
  // contains them. Only for load balancer IPs.
  int other_ranges = 0;
  // False: no client may reach an endpoint with its own address, because no source range contains
  // the clients, or because they must be masqueraded.
  bool permitted = true;
  bool exists = true;
  // If first_port is not 0, the Service has these ports, which must contain the target port.
  uint16_t first_port = 0;
  uint16_t last_port = 0;
  int other_ports = 0;    // Number of ports that no client uses, at most 99.
  bool weighted = false;  // True: endpoints with odd numbers have three times as many slots.

  std::string cluster_ip() const;
  std::string address() const;  // The address that clients use.
  uint16_t source_port() const { return static_cast<uint16_t>(10000 + number); }
  uint16_t port() const { return first_port == 0 ? kCountedPort : target_port(); }
  uint16_t target_port() const { return static_cast<uint16_t>(9000 + number); }

  v1::Object Service() const;
  v1::Object Slice() const;
  Objects All() const { return {Service(), Slice()}; }
};

struct FlowTarget {
  uint16_t source_port = 0;  // Source port of all datagrams to this target.
  std::string address;
  uint16_t port = 0;
};

struct FlowOptions {
  std::vector<FlowTarget> targets;
  uint32_t first_source = 0;  // The first source address, in host byte order.
  int sources = 1;            // Number of source addresses.
  int per_second = 40000;     // Flows to all targets together.
  // The generator stops after this time, even if a test does not call Stop().
  std::chrono::seconds longest{900};
};

// Sends UDP datagrams, each of a new flow, at a constant rate. One thread in the client's namespace
// writes complete IPv4 packets with changing source addresses to a raw socket.
//
// A source address is used again after all other addresses, so the conntrack timeout of the node
// must be shorter than `sources` divided by the rate of one target.
class FlowGenerator {
 public:
  // `netns` is used only during the call.
  static absl::StatusOr<std::unique_ptr<FlowGenerator>> Start(const NetNs& netns,
                                                              FlowOptions options);
  ~FlowGenerator();  // Stops the traffic.

  // Waits until `flows` more datagrams are sent.
  absl::Status Go(int64_t flows) const;
  void Stop();

  int64_t sent() const { return sent_; }
  double per_second() const;  // The rate since Start(), after Stop().

 private:
  using Clock = std::chrono::steady_clock;
  struct Datagram;

  FlowGenerator(UniqueFd socket, FlowOptions options)
      : socket_(std::move(socket)), options_(std::move(options)) {}
  void Send();
  // Sends `count` datagrams. The number of the first datagram is `first`.
  int SendBatch(int64_t first, int count);

  const UniqueFd socket_;
  const FlowOptions options_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point end_;
  std::atomic<int64_t> sent_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Number of datagrams by nft's notation of a key: source port, or source port, address and port of
// the endpoint, for example "10001 . 10.244.1.130 . 9001".
using DatagramCounts = std::map<std::string, int64_t>;

int64_t Sum(const DatagramCounts& counts);

// Counts the datagrams of counted Services with nftables counters, outside svcmapd's tables.
//
// The node counts each datagram when it enters the node, and when it leaves the node for an
// endpoint. If the node forwards a datagram without translation, the node counts this datagram, and
// counts it again after svcmapd's rejects. The namespace with the endpoints counts the datagrams
// again, and then drops them, so that no answer changes the state of a flow.
//
// A packet is lost only if a commit happens between two lookups of this packet, which takes less
// than a microsecond. To make such losses more frequent, the node traces the destination NAT of
// counted datagrams: the kernel builds a message after each rule.
class PacketWatch {
 public:
  // Creates the counters. Both namespaces must outlive this object.
  static absl::StatusOr<PacketWatch> Install(const NetNs& node, const NetNs& endpoints);

  // By source port. Reading is consistent only if no traffic flows.
  absl::StatusOr<DatagramCounts> Entered() const { return Read(*node_, "entered"); }
  absl::StatusOr<DatagramCounts> Untranslated() const { return Read(*node_, "untranslated"); }
  absl::StatusOr<DatagramCounts> Escaped() const { return Read(*node_, "escaped"); }
  // Datagrams that belong to an existing conntrack entry, so they are not the first of a flow.
  absl::StatusOr<DatagramCounts> Repeated() const { return Read(*node_, "repeated"); }
  // By source port, address and port of the endpoint.
  absl::StatusOr<DatagramCounts> Left() const { return Read(*node_, "left"); }
  absl::StatusOr<DatagramCounts> Arrived() const { return Read(*endpoints_, "arrived"); }

 private:
  PacketWatch(const NetNs& node, const NetNs& endpoints, UniqueFd trace)
      : node_(&node), endpoints_(&endpoints), trace_(std::move(trace)) {}
  static absl::StatusOr<DatagramCounts> Read(const NetNs& netns, const std::string& set);

  const NetNs* node_;
  const NetNs* endpoints_;
  UniqueFd trace_;  // Without a receiver, the kernel builds no trace messages.
};

// Counters of connection tracking in one namespace.
struct ConntrackLosses {
  int64_t insert_failed = 0;  // Packets dropped because another packet has added the same tuple.
  int64_t dropped = 0;        // Packets dropped because of a full table or failed allocation.
};
absl::StatusOr<ConntrackLosses> ReadConntrackLosses(const NetNs& netns);

// Number of packets that this machine has dropped because a receive queue of a CPU was full.
absl::StatusOr<int64_t> ReadQueueDrops();

// Counts datagrams that a node sent to a wrong endpoint: an endpoint of another Service, an
// endpoint that the Service no longer has, or an endpoint that the client must not reach with its
// own address.
//
// A datagram may reach a removed endpoint if its lookup was before the commit. Therefore, the
// datagrams between two calls of Judge() may reach the endpoints before and after the changes
// between these calls.
class EndpointJudge {
 public:
  // Judges the datagrams that left the node since the last call. Call immediately before a change.
  void Judge(const DatagramCounts& left);
  // Call for each Service before the first datagram, and after Judge() before the controller sends
  // the change.
  void Change(const CountedService& changed);

  // Misdirected datagrams so far, by the keys of PacketWatch::Left().
  const DatagramCounts& misdirected() const { return misdirected_; }

 private:
  static std::set<std::string> KeysOf(const CountedService& service);

  std::map<int, std::set<std::string>> current_;  // Keys by number of the Service.
  std::set<std::string> permitted_;
  DatagramCounts judged_;
  DatagramCounts misdirected_;
};

struct LossCounts {
  int64_t flows = 0;
  double per_second = 0;
  DatagramCounts untranslated;  // By source port.
  DatagramCounts escaped;       // By source port: untranslated and not rejected.
  DatagramCounts dropped;       // By source port. Contains all Services.
  DatagramCounts misdirected;   // By the keys of PacketWatch::Left().

  std::string ToString() const;
};

// Returns one line for each key.
std::string ToText(const DatagramCounts& counts);

// The clients and the endpoints of all counted Services.
struct CountedHosts {
  const Host* clients;
  const Host* endpoints;
};

// Adds the hosts to the topology, and shortens the conntrack timeouts of the node.
absl::StatusOr<CountedHosts> AddCountedHosts(Topology& topology);

class CountedTraffic {
 public:
  // Starts the traffic to `services` and waits until it flows. The node and the hosts must outlive
  // this object.
  static absl::StatusOr<std::unique_ptr<CountedTraffic>> Start(
      const NetNs& node, const CountedHosts& hosts, const std::vector<CountedService>& services);

  // Waits until more datagrams are sent.
  absl::Status LetFlow() const;
  // Call immediately before the changes are sent to the node.
  absl::Status Change(const std::vector<CountedService>& changed);
  // Stops the traffic. Returns an error if anything other than the node's rules may have lost
  // datagrams.
  absl::StatusOr<LossCounts> Stop();

 private:
  CountedTraffic(const NetNs& node, PacketWatch watch) : node_(node), watch_(std::move(watch)) {}
  // Waits until all sent datagrams are counted.
  absl::Status WaitUntilCounted() const;

  const NetNs& node_;
  const PacketWatch watch_;
  EndpointJudge judge_;
  std::unique_ptr<FlowGenerator> flows_;
  size_t services_ = 0;
  ConntrackLosses conntrack_before_;
  int64_t queue_drops_before_ = 0;
};

}  // namespace svcmap::testing
