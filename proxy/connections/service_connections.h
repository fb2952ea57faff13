// How many new connections each Service had: what the elements of `service-connections` have
// counted, told by the Services that have their addresses now (docs/decisions/0009).
//
// They are read on a thread of their own, so that nobody who asks waits for a commit; the loop is
// asked for a part of its Services at a time, so that no commit waits for more than that.
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

// Sent to one address and port of a Service port.
struct ServiceConnections {
  std::string service;  // "namespace/name"
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;        // Of the Service.
  IpAddress address;        // Its own, or the node's.
  uint16_t reached_at = 0;  // That port, or the nodePort.
  uint64_t connections = 0;

  friend bool operator==(const ServiceConnections&, const ServiceConnections&) = default;
};

// By the key of the element, of one family.
using PacketCounts = absl::flat_hash_map<std::string, uint64_t>;

struct ConnectionReaderOptions {
  std::function<absl::StatusOr<PacketCounts>(Family)> read;  // What the kernel has counted.
  std::function<void(const absl::Status&)> on_problem;  // The counters cannot be read any more.
  // What was read stays for so long, and for so many times what reading it took: it costs the
  // kernel, and whoever asks must not make it cost more.
  std::chrono::milliseconds lifetime{1000};
  int rest = 20;
  std::chrono::milliseconds patience{500};  // How long who asks waits for what is read anew.
};

class ConnectionReader {
 public:
  // `loop` outlives it, or stops before.
  ConnectionReader(Loop& loop, ConnectionReaderOptions options);
  ~ConnectionReader();  // Waits for what is being read.

  // Of every address of every Service that is programmed, in the order of the Services' keys. What
  // an address was seen to have counted is not forgotten as long as it is there. Where that cannot
  // be read in time it is what was read last, at first nothing; never null. Any thread.
  std::shared_ptr<const std::vector<ServiceConnections>> Read();

 private:
  void Run();
  void ReadAnew();

  Loop& loop_;
  const ConnectionReaderOptions options_;
  PacketCounts seen_[2];  // By Index(Family); of `connections_`. The thread's own.
  bool failing_ = false;  // Likewise.

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::shared_ptr<const std::vector<ServiceConnections>> connections_;
  std::chrono::steady_clock::time_point next_;
  bool wanted_ = false;  // Or being read.
  bool ending_ = false;

  std::thread thread_;  // Last: uses all of the above.
};

}  // namespace svcmap::proxy
