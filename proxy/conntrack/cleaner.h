// Clears stale UDP flows out of the kernel's connection tracking, on a thread of its own: after the
// commit, and never in the way of the next one. What comes in while it is busy is merged.
//
// Nothing is cleared before the state is complete; then all Services are gone through once, and
// after that those whose UDP ports have changed. The thread sleeps between two rounds, nine times
// as long as one takes: at worst it uses a tenth of a CPU.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nft/conntrack/flow_table.h"
#include "proxy/conntrack/udp_book.h"

namespace svcmap::proxy {

struct Cleanup {
  size_t services = 0;                   // Whose flows were looked for.
  uint64_t entries = 0;                  // Of the tracking table, that the kernel sent.
  std::array<uint64_t, 2> deleted = {};  // By Index(Family).
  uint64_t gone = 0;                     // Stale ones that ended by themselves meanwhile.
  std::chrono::nanoseconds duration{0};
  bool complete = false;  // All flows were seen. If not, the same Services are gone through again.
  absl::Status error;
};

struct CleanerStatus {
  uint64_t rounds = 0, failures = 0;
  uint64_t entries = 0, gone = 0;
  std::array<uint64_t, 2> deleted = {};
  size_t services = 0;  // With UDP ports, or with flows that are left of one.
  Cleanup last;
};

struct CleanerOptions {
  // From a change to the round, so that packets that were underway when the rules changed are
  // tracked by then.
  std::chrono::milliseconds settle{10};
  int rest_factor = 9;
  // What was deleted is looked for once more after this time: an answer that was underway may have
  // brought a flow back.
  std::chrono::milliseconds second_look{1000};
  std::chrono::milliseconds first_retry{1000};
  std::chrono::milliseconds last_retry{60000};
  // After each round, on the cleaner's thread.
  std::function<void(const Cleanup&)> on_round;
};

class Cleaner {
 public:
  // `table` is used by the cleaner's thread only.
  Cleaner(nft::FlowTable& table, CleanerOptions options);
  ~Cleaner();  // Stops.

  // The thread works in the network namespace of the caller's.
  void Start();
  void Stop();  // Leaves a round in the middle.

  // Any thread; waits for no round.
  // Each Service with what it is now; those that never had a UDP port cost a look-up.
  void Update(std::vector<std::pair<std::string, UdpPorts>> services);
  void StateIsComplete();
  CleanerStatus status() const;

 private:
  void Run();
  void AwaitWork(std::unique_lock<std::mutex>& lock);
  Cleanup Clean(UdpBook::Round& round, StaleFlows& flows);
  // What the round leaves to do, and when.
  void Settle(const UdpBook::Round& round, const StaleFlows& flows, const Cleanup& cleanup,
              bool second_look);

  nft::FlowTable& table_;
  const CleanerOptions options_;
  std::atomic<bool> stopping_ = false;  // Set under the mutex, read in the middle of a round.

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  UdpBook book_;
  bool complete_ = false;
  CleanerStatus status_;
  std::chrono::steady_clock::time_point next_;
  int failures_in_row_ = 0;
  std::vector<UdpBook::Round> second_looks_;  // Rounds that deleted flows.
  std::chrono::steady_clock::time_point second_look_at_;
  std::thread thread_;
};

}  // namespace svcmap::proxy
