// Number of new connections per Service, from the counters of the sets `service-connections` and
// `range-connections`. Each count belongs to the Service that currently owns the address
// (docs/decisions/0009).
//
// A separate thread reads the counters, so that callers never wait for a commit. The thread
// requests a limited number of Services at a time from the reconcile loop, so that commits are
// delayed only briefly.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
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
  // `loop` must outlive the reader.
  ConnectionReader(Loop& loop, ConnectionReaderOptions options);
  ~ConnectionReader();  // Waits for a read in progress.

  // Returns the counts for each address of each programmed Service, sorted by Service key. Counts
  // do not decrease as long as the address exists. If a new result is not available in time,
  // returns the previous result (initially empty). Never null. Thread-safe.
  std::shared_ptr<const std::vector<ServiceConnections>> Read();

 private:
  void Run();
  void Reload();

  Loop& loop_;
  const ConnectionReaderOptions options_;
  // Counts in `connections_`, indexed by Index(Family). Only the reader's thread uses `seen_`.
  PacketCounts seen_[2];
  bool failing_ = false;  // Only the reader's thread uses `failing_`.

  std::mutex mutex_;
  std::condition_variable changed_;
  // Protected by mutex_.
  std::shared_ptr<const std::vector<ServiceConnections>> connections_;
  std::chrono::steady_clock::time_point next_;
  bool wanted_ = false;  // True if a read is requested or in progress.
  bool ending_ = false;

  std::thread thread_;  // Last member, because the thread uses all members above.
};

}  // namespace svcmap::proxy
