// Opens TCP connections at a fixed rate, even if earlier connections are not established yet.
// Measures a disturbance from the client's point of view.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/bench/packets/first_packets.h"
#include "tests/bench/packets/packet_world.h"

namespace svcmap::bench {

class PacedConnections {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts opening connections. `world` must outlive the returned object.
  static absl::StatusOr<std::unique_ptr<PacedConnections>> Start(PacketWorld& world,
                                                                 const FlowTarget& target,
                                                                 int per_second);
  ~PacedConnections();

  // Waits until a connection with a scheduled time after `after` succeeds. Returns false if no such
  // connection succeeds within `limit`.
  bool AwaitConnected(Clock::time_point after, std::chrono::seconds limit) const;

  // Stops opening connections, and waits at most kFlowPatience for pending connections.
  void Stop();

  // Returns the latencies of connections scheduled in [from, to), measured from the scheduled time.
  // Call Between only after Stop.
  Latencies Between(Clock::time_point from, Clock::time_point to) const;

 private:
  struct Flow {
    Clock::time_point due;
    double microseconds = -1;  // Latency of the connection. Negative if the connection failed.
    UniqueFd fd;
  };

  PacedConnections(PacketWorld& world, FlowTarget target, int per_second)
      : world_(world), target_(std::move(target)), every_(std::chrono::seconds(1)) {
    every_ /= per_second;
  }
  void Run();
  void Connect(Clock::time_point due);
  void AwaitAnswers(Clock::time_point until);
  void GiveUp(Clock::time_point due_before);

  PacketWorld& world_;
  const FlowTarget target_;
  std::chrono::nanoseconds every_;
  UniqueFd epoll_;
  std::vector<Flow> flows_;  // Flows in the order of their scheduled times.
  // Index of the first connection that may still be pending.
  size_t oldest_ = 0;
  // The scheduled time of the newest successful connection.
  std::atomic<Clock::rep> newest_connected_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace svcmap::bench
