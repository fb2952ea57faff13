// Deletes entries of the connection tracking table after each commit: stale UDP flows, stale TCP
// and SCTP handshakes, and TCP connections to endpoints that are gone. A separate thread deletes
// the entries, so the next commit is not delayed. Updates that arrive during a round are merged. A
// round lists the flows of all protocols in one pass.
//
// Cleanup starts when StateIsComplete is called. The first round covers the UDP ports of all
// Services, and so does the first round after a repair of the tables. Other rounds cover only
// Services whose UDP ports changed, or whose TCP endpoints are gone. If a round covers handshakes,
// it covers those of all Services. After each round, the thread
// sleeps nine times as long as the round took, so it uses at most a tenth of a CPU.
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
#include "proxy/conntrack/handshake_book.h"
#include "proxy/conntrack/tcp_book.h"
#include "proxy/conntrack/udp_book.h"

namespace svcmap::proxy {

struct Cleanup {
  size_t services = 0;                   // Number of Services whose UDP flows the round covers.
  size_t tcp_services = 0;               // Number of Services with TCP endpoints that are gone.
  uint64_t entries = 0;                  // Number of conntrack entries that the kernel sent.
  std::array<uint64_t, 2> deleted = {};  // UDP flows, indexed by Index(Family).
  std::array<uint64_t, 2> deleted_tcp = {};
  bool handshakes = false;  // True if the round covers handshakes.
  std::array<uint64_t, 2> deleted_handshakes = {};
  // Number of TCP endpoints whose connections are not deleted (TcpBook::kMaxDepartures).
  uint64_t forgotten_tcp = 0;
  uint64_t gone = 0;  // Number of stale flows that ended before their deletion.
  std::chrono::nanoseconds duration{0};
  // True if all flows were listed. If false, the cleaner scans the same Services again.
  bool complete = false;
  absl::Status error;
};

struct CleanerStatus {
  uint64_t rounds = 0, failures = 0;
  uint64_t entries = 0, gone = 0;
  std::array<uint64_t, 2> deleted = {};
  std::array<uint64_t, 2> deleted_tcp = {};
  std::array<uint64_t, 2> deleted_handshakes = {};
  // Number of Services with UDP ports, or with remaining flows of a removed UDP port.
  size_t services = 0;
  Cleanup last;
};

struct CleanerOptions {
  // Delay between a change and the resulting round, so that packets in flight during the change are
  // already tracked.
  std::chrono::milliseconds settle{10};
  int rest_factor = 9;
  // Time after which a TCP endpoint that is in no EndpointSlice of its Service is gone.
  std::chrono::milliseconds gone_after{1000};
  // A stale handshake is deleted if two dumps of the connection tracking table at least this time
  // apart contain it.
  std::chrono::milliseconds handshake_wait{1000};
  // Maximum number of conntrack entries in the dump of a round that covers only handshakes.
  uint64_t max_handshake_entries = 1'000'000;
  // Delay until a round that deleted UDP flows is repeated, because a reply in flight can recreate
  // a deleted flow. Each time the repeated round deletes flows too, the delay doubles, up to
  // `last_retry`.
  std::chrono::milliseconds repeat{1000};
  std::chrono::milliseconds first_retry{1000};
  std::chrono::milliseconds last_retry{60000};
  // The cleaner's thread calls `on_round` after each round.
  std::function<void(const Cleanup&)> on_round;
};

class Cleaner {
 public:
  // Only the cleaner's thread uses `table`.
  Cleaner(nft::FlowTable& table, CleanerOptions options);
  ~Cleaner();  // Calls Stop().

  // Starts the thread, which uses the caller's network namespace.
  void Start();
  void Stop();  // Stops the thread. Interrupts a round in progress.

  // A commit to the tables, and the Update() that follows it, take place while an object of this
  // class exists. Packets use the new rules before Update() is called. So that their flows do not
  // look stale, the cleaner deletes no flow until the commit has ended. Does nothing if `cleaner`
  // is null. One object at a time.
  class CommitScope {
   public:
    explicit CommitScope(Cleaner* cleaner);
    ~CommitScope();
    CommitScope(const CommitScope&) = delete;
    CommitScope& operator=(const CommitScope&) = delete;

   private:
    Cleaner* const cleaner_;
  };

  // Replaces the UDP ports and the TCP endpoints of the given Services. Thread-safe. Update does
  // not wait for a round in progress. The cost for a Service that never had a UDP port is one
  // lookup.
  void Update(std::vector<std::pair<std::string, UdpPorts>> services,
              std::vector<std::pair<std::string, TcpEndpoints>> tcp = {},
              const HandshakeChanges& handshakes = {});

  // Returns the result of FindStaleHandshakes. The cleaner's thread calls this function, which may
  // block.
  using StaleHandshakesFn =
      std::function<std::vector<std::optional<ServiceHash>>(std::span<const nft::Flow>)>;
  // The cleaner deletes handshakes only while it has this function. With null, waits until a call
  // in progress has returned. Thread-safe.
  void FindStaleHandshakesWith(StaleHandshakesFn find);
  void StateIsComplete();
  // The tables were incomplete, and are now repaired. Packets that passed before the repair may
  // have created flows without translation. Thread-safe.
  void TablesRepaired();
  CleanerStatus status() const;

 private:
  // A round whose Services are scanned again.
  struct Repeat {
    UdpBook::Round round;
    std::chrono::milliseconds delay;
    std::chrono::steady_clock::time_point at;
  };

  void Run();
  // Makes the Services of the repeats that are due now due in the book. Returns the delay of the
  // repeat that follows if the next round deletes flows. Requires the mutex.
  std::chrono::milliseconds TakeRepeats();
  void AwaitWork(std::unique_lock<std::mutex>& lock);
  // Returns the time when work is due, or nullopt if there is no work. Requires the mutex.
  std::optional<std::chrono::steady_clock::time_point> WorkDueAt() const;
  Cleanup Clean(const UdpBook::Round& round, StaleFlows& flows, const TcpBook::Round& tcp,
                HandshakeBook::Round& handshakes);
  // Removes flows that are not stale. Returns the Services of the other flows.
  std::vector<ServiceHash> KeepStaleHandshakes(std::vector<nft::Flow>& flows);
  // Deletes or records the stale ones of these handshakes.
  void SortHandshakes(std::vector<nft::Flow>& flows, HandshakeBook::Round& round, Cleanup& cleanup);
  // Adds the result to `deleted`. Returns false after an error.
  bool Delete(std::span<const nft::Flow> flows, uint64_t& deleted, Cleanup& cleanup);
  // Waits for the end of the present commit, because listed flows may use its rules. Then removes
  // flows of one protocol from `flows` that are no longer stale.
  void KeepStale(const UdpBook::Round& round, const TcpBook::Round& tcp,
                 nft::TransportProtocol protocol, std::vector<nft::Flow>& flows);
  // Schedules the work that remains after a round. `repeat` is the delay of the next repeat.
  void Settle(const UdpBook::Round& round, const StaleFlows& flows, const TcpBook::Round& tcp,
              HandshakeBook::Round handshakes, const Cleanup& cleanup,
              std::chrono::milliseconds repeat);

  nft::FlowTable& table_;
  const CleanerOptions options_;
  // The mutex must be held to set the flag. A round in progress reads the flag without the mutex.
  std::atomic<bool> stopping_ = false;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable commit_ended_;
  uint64_t commits_started_ = 0, commits_ended_ = 0;
  UdpBook book_;
  TcpBook tcp_book_{options_.gone_after};
  HandshakeBook handshake_book_{options_.handshake_wait, options_.last_retry};
  bool has_find_ = false;
  bool complete_ = false;
  CleanerStatus status_;
  std::chrono::steady_clock::time_point next_;
  Backoff backoff_{options_.first_retry, options_.last_retry};
  std::vector<Repeat> repeats_;
  std::mutex find_mutex_;  // Locked during a call of the function, before `mutex_`.
  StaleHandshakesFn find_;
  std::thread thread_;
};

}  // namespace svcmap::proxy
