// Deletes entries of the connection tracking table after each commit: stale UDP flows, stale TCP
// and SCTP handshakes, and TCP connections to removed endpoints. A separate thread deletes
// the entries, so the next commit is not delayed. Updates that arrive during a round are merged. A
// round lists the flows of all protocols in one pass.
//
// Cleanup starts when StateIsComplete is called. The first round covers the UDP ports of all
// Services, and so does each round after a change that can make UDP flows stale, or after a repair
// of the tables. If a round covers handshakes, it covers the handshakes of all Services. After each
// round, the thread sleeps nine times as long as the round took, so it uses at most a tenth of a
// CPU.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nft/base/backoff.h"
#include "nft/conntrack/flow_table.h"
#include "proxy/conntrack/endpoint_events.h"
#include "proxy/conntrack/handshake_book.h"
#include "proxy/conntrack/udp_flows.h"

namespace svcmap::proxy {

struct Cleanup {
  size_t services = 0;      // Number of Services with UDP ports, or 0 if UDP is not covered.
  size_t tcp_services = 0;  // Number of Services with removed TCP endpoints.
  uint64_t entries = 0;     // Number of conntrack entries that the kernel sent.
  std::array<uint64_t, 2> deleted = {};  // UDP flows, indexed by Index(Family).
  std::array<uint64_t, 2> deleted_tcp = {};
  bool handshakes = false;  // True if the round covers handshakes.
  std::array<uint64_t, 2> deleted_handshakes = {};
  // Number of TCP endpoints whose connections are not deleted (Cleaner::kMaxDepartures).
  uint64_t forgotten_tcp = 0;
  std::chrono::nanoseconds duration{0};
  // True if all flows were listed. If false, the cleaner repeats the round.
  bool complete = false;
  absl::Status error;
};

// Sums over all rounds.
struct CleanerStatus {
  uint64_t failures = 0;
  std::array<uint64_t, 2> deleted = {};
  std::array<uint64_t, 2> deleted_tcp = {};
  std::array<uint64_t, 2> deleted_handshakes = {};
};

// The result of FindStaleConnections().
using StaleConnections = std::optional<std::vector<std::optional<ServiceHash>>>;

struct CleanerOptions {
  // Delay between a change and the resulting round, so that packets in flight during the change are
  // already tracked.
  std::chrono::milliseconds settle{10};
  int rest_factor = 9;
  // Time after which a TCP endpoint that is in no EndpointSlice of its Service counts as gone.
  // Connections to the endpoint are then deleted.
  std::chrono::milliseconds gone_after{1000};
  // A stale handshake is deleted only if two dumps of the connection tracking table contain it. The
  // second dump is at least this time after the first dump.
  std::chrono::milliseconds handshake_wait{1000};
  // Maximum number of conntrack entries in the dump of a round that covers only handshakes.
  uint64_t max_handshake_entries = 1'000'000;
  // Delay until a round that deleted UDP flows is repeated, because a reply in flight can recreate
  // a deleted flow. Each time the repeated round deletes flows too, the delay doubles, up to
  // `last_retry`.
  std::chrono::milliseconds repeat{1000};
  std::chrono::milliseconds first_retry{1000};
  std::chrono::milliseconds last_retry{60000};
  // Calls FindStaleConnections(). If a commit is in progress, waits for the end of the commit and
  // of the Update() that follows it. The cleaner also calls `find` before it deletes UDP flows:
  // packets use the new rules before Update() is called, so their flows would look stale. Returns
  // nullopt if it did not wait, because the agent stops. The cleaner's thread calls `find` only
  // after StateIsComplete(). If null, TCP and SCTP flows are not deleted.
  std::function<StaleConnections(std::span<const nft::Flow>)> find;
  // The cleaner's thread calls `on_round` after each round.
  std::function<void(const Cleanup&)> on_round;
};

class Cleaner {
 public:
  // Maximum number of recorded departures. A departure is the removal of a TCP endpoint from a
  // Service. Above the maximum, the oldest departures are forgotten.
  static constexpr size_t kMaxDepartures = EndpointEvents<EndpointAddress>::kMaxEvents;

  // Only the cleaner's thread uses `table`.
  Cleaner(nft::FlowTable& table, CleanerOptions options);
  ~Cleaner();  // Calls Stop().

  // Starts the thread, which uses the caller's network namespace.
  void Start();
  void Stop();  // Stops the thread. Interrupts a round in progress.

  // Replaces the UDP ports of the given Services. Thread-safe. Update does not wait for a round in
  // progress. The cost for a Service that never had a UDP port is one lookup.
  void Update(const std::vector<std::pair<std::string, UdpPorts>>& services,
              const EndpointChanges& changes = {});

  void StateIsComplete();
  // The tables were incomplete, and are now repaired. Packets that passed before the repair may
  // have created flows without translation. Thread-safe.
  void TablesRepaired();
  CleanerStatus status() const;

 private:
  using Time = std::chrono::steady_clock::time_point;

  struct Round {
    Time start;
    std::vector<nft::FlowKind> kinds;
    Cleanup cleanup;

    bool udp() const { return cleanup.services > 0; }
    bool tcp() const { return cleanup.tcp_services > 0; }
    bool handshakes() const { return cleanup.handshakes; }
  };

  void Run();
  void AwaitWork(std::unique_lock<std::mutex>& lock);
  // The caller of the following functions must hold the mutex.

  // Returns the time when work is due, or nullopt if there is no work.
  std::optional<Time> WorkDueAt() const;
  Round StartRound();
  // Returns the recorded times at which the flow's endpoint left Services, or null if there are
  // none.
  const EndpointEvents<EndpointAddress>::Events* DeparturesOf(const nft::Flow& flow) const;
  // Returns true if the flow's endpoint left the Service long enough before the start of the round.
  bool IsGone(const nft::Flow& flow, ServiceHash service, const Round& round) const;

  void Clean(Round& round);
  // Removes the flows that are not stale from `flows`. Returns the Services of the remaining flows.
  std::vector<ServiceHash> KeepStaleConnections(std::vector<nft::Flow>& flows);
  // Deletes the stale flows among `flows`, or records them as handshakes. Clears `flows`. Returns
  // false after an error.
  bool DeleteUdp(std::vector<nft::Flow>& flows, Cleanup& cleanup);
  bool DeleteConnections(std::vector<nft::Flow>& flows, Round& round);
  // Adds the result to `deleted`. Returns false after an error.
  bool Delete(std::vector<nft::Flow>& flows, std::array<uint64_t, 2>& deleted, Cleanup& cleanup);
  // Schedules the work that remains after a round.
  void Settle(const Round& round);

  nft::FlowTable& table_;
  const CleanerOptions options_;
  // The mutex must be held to set the flag. A round in progress reads the flag without the mutex.
  std::atomic<bool> stopping_ = false;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool asleep_ = false;  // The thread waits for work, not for the start of a round.
  UdpFlows udp_;
  EndpointEvents<EndpointAddress> departures_;
  uint64_t forgotten_ = 0;  // Departures that were forgotten since the last round.
  HandshakeBook handshakes_{options_.handshake_wait, options_.last_retry};
  bool complete_ = false;
  CleanerStatus status_;
  Time next_;
  Backoff backoff_{options_.first_retry, options_.last_retry};
  std::optional<Time> repeat_at_;  // When UDP flows are scanned again.
  std::chrono::milliseconds repeat_delay_{0};
  std::thread thread_;
};

}  // namespace svcmap::proxy
