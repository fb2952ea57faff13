// Sends tens of thousands of new UDP flows per second to counted Services, and counts the lost
// packets.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/loss/counted_service.h"
#include "tests/loss/flow_generator.h"
#include "tests/loss/packet_watch.h"
#include "tests/support/topology.h"

namespace svcmap::testing {

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
