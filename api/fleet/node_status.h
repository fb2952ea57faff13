// Keys and values of the state of a fleet in etcd (docs/fleet.md). Pure functions.
//
//     STATUS_PREFIX/nodes/NAME    NodeStatus, written by svcmap-etcd of the node
//     STATUS_PREFIX/ask           Ask, written by `svcmapctl fleet wait`
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap::fleet {

using SystemTimePoint = std::chrono::system_clock::time_point;

// Every transaction of the writer also writes the head.
struct Head {
  uint64_t seq = 0;    // Increases by 1 with each transaction.
  uint64_t epoch = 0;  // Increases when the writer changes.
  std::string nonce;   // Random. Identifies the transaction.
  bool operator==(const Head&) const = default;
};

absl::StatusOr<Head> ParseHead(std::string_view value);

struct NodeStatus {
  uint64_t seq = 0;        // The writer's sequence number that svcmapd has acknowledged.
  uint64_t epoch = 0;      // Epoch of the last received head.
  int64_t revision = 0;    // Revision of etcd up to which the node has received the objects.
  bool healthy = false;    // Whether /healthz of svcmap-etcd returns 200.
  std::string reason;      // Problems in one line. Empty if the node is healthy.
  uint64_t rejected = 0;   // Objects that svcmapd rejects, and keys that svcmap-etcd rejects.
  bool held = false;       // Whether svcmapd holds removals.
  std::string version;     // Version of svcmap-etcd.
  SystemTimePoint time;    // Has a precision of seconds.
  std::string agent = {};  // Address of svcmapd for `fleet explain`: tcp://HOST:PORT, or empty.
  bool operator==(const NodeStatus&) const = default;
};

// Requests a status from each node as soon as svcmapd has acknowledged `seq`.
struct Ask {
  uint64_t seq = 0;
  std::chrono::seconds window{0};  // The nodes write at random times during this time.
};

inline constexpr std::chrono::seconds kLongestWindow{3600};

std::string StatusKey(const std::string& status_prefix, std::string_view node);
std::string AskKey(const std::string& status_prefix);

// Returns the gRPC target of "tcp://HOST:PORT". A Unix socket cannot be reached from other
// machines.
absl::StatusOr<std::string> AgentTarget(const std::string& address);

std::string ToJson(const Head& head);
std::string ToJson(const NodeStatus& status);
std::string ToJson(const Ask& ask);
absl::StatusOr<NodeStatus> ParseStatus(std::string_view value);
absl::StatusOr<Ask> ParseAsk(std::string_view value);

// ---- Summary ----

// The age after which a node without a new status is silent. A node writes at least every 450 s.
// The clock of the node has set the time of the status. If the time is later than now by more than
// kSilence, the age is unknown, and the node is also silent.
inline constexpr std::chrono::minutes kSilence{10};

struct FleetNode {
  std::string name;
  std::optional<NodeStatus> status;  // Absent: the node has not written a valid status.
  bool behind = false;               // The status has a smaller seq than required.
  bool silent = false;               // No status, or its time is old or in the future.
  bool rejecting() const { return status && status->rejected > 0; }
  bool unhealthy() const { return status && !status->healthy; }
};

struct Summary {
  std::vector<FleetNode> nodes;  // Sorted by name.
  // A node can be counted several times.
  size_t up_to_date = 0, behind = 0, rejecting = 0, unhealthy = 0, silent = 0;
};

// `names` are the nodes with a Node object. `values` are the status values by the name of the node.
Summary Summarize(const std::set<std::string>& names,
                  const std::map<std::string, std::string>& values, uint64_t required_seq,
                  SystemTimePoint now);

// Whether at least `percent` percent of the nodes are up to date. False for a fleet without nodes.
bool Reached(const Summary& summary, int percent);

}  // namespace svcmap::fleet
