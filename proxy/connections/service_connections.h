// Number of new connections per Service, from the counters of the sets `service-connections` and
// `range-connections`. Each count belongs to the Service that currently owns the address
// (docs/decisions/0009).
//
// A separate thread reads the counters, so that the caller never waits for a commit. The thread
// requests a limited number of Services at a time from the reconcile loop, so that commits are
// delayed only briefly.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "proxy/reconcile/loop.h"

namespace svcmap::proxy {

// Connections to one address and port of a Service port, or to all port ranges of an address and
// protocol.
struct ServiceConnections {
  std::string service;  // "namespace/name"
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;        // The Service's port. 0 for port ranges.
  IpAddress address;        // An address of the Service or of the node.
  uint16_t reached_at = 0;  // The Service's port, or the nodePort. 0 for port ranges.
  uint64_t connections = 0;

  friend bool operator==(const ServiceConnections&, const ServiceConnections&) = default;
};

// Packet counts of one family by element key, of both sets. Their keys differ in length.
using PacketCounts = absl::flat_hash_map<std::string, uint64_t>;

struct ConnectionReaderOptions {
  std::function<absl::StatusOr<PacketCounts>(Family)> read;  // Reads the kernel's counters.
  // The reader calls `on_problem` when the counters become unreadable.
  std::function<void(const absl::Status&)> on_problem;
  // A result is cached for `lifetime` and for at least `rest` times the duration of the read.
  // Caching limits the load on the kernel, regardless of the number of callers.
  std::chrono::milliseconds lifetime{1000};
  int rest = 20;
  std::chrono::milliseconds patience{500};  // Maximum time that a caller waits for a new result.
};

class ConnectionReader {
 public:
  // `loop` must outlive the reader. The destructor waits for a read in progress.
  ConnectionReader(Loop& loop, ConnectionReaderOptions options)
      : loop_(loop), options_(std::move(options)) {}

  // Returns the counts for each address of each programmed Service, sorted by Service key. Counts
  // do not decrease as long as the address exists. If a new result is not available in time,
  // returns the previous result (initially empty). Never null.
  std::shared_ptr<const std::vector<ServiceConnections>> Read();

 private:
  struct Result {
    std::shared_ptr<const std::vector<ServiceConnections>> connections;
    std::chrono::steady_clock::time_point next;  // When the next read may begin.
  };
  // Returns the last result if the reconcile loop has stopped.
  Result Load();
  void TakeResult(std::chrono::milliseconds patience);

  Loop& loop_;
  const ConnectionReaderOptions options_;
  Result last_ = {std::make_shared<const std::vector<ServiceConnections>>(), {}};
  // Only the read in progress uses the following two members.
  PacketCounts seen_[2];  // Counts in the last result, by Index(Family).
  bool failing_ = false;
  std::future<Result> reading_;  // Last member, because its thread uses all members above.
};

}  // namespace svcmap::proxy
