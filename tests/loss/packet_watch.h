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
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

// Number of datagrams by nft's notation of a key: source port, or source port, address and port of
// the endpoint, for example "10001 . 10.244.1.130 . 9001".
using DatagramCounts = std::map<std::string, int64_t>;

int64_t Sum(const DatagramCounts& counts);

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

}  // namespace svcmap::testing
