// Continuous traffic during changes of the rules: open TCP connections that exchange a message
// every few milliseconds, new TCP connections, and UDP requests. Each kind runs in one thread
// inside a namespace. Counts failures and stores the first ones with their time.
//
// Retransmissions are visible: a UDP request is sent once, and retransmitted TCP segments are
// counted, including SYNs. A slow answer is not a failure, because the machine may be busy, but it
// is reported.
//
//   ASSERT_OK_AND_ASSIGN(auto traffic, SteadyTraffic::Start(client.netns(), targets));
//   ...
//   ASSERT_OK(traffic->Go(100));  // Waits for 100 more exchanges.
//   EXPECT_OK(traffic->Stop().Check());
//
// The servers are those of EchoServer. All methods may be called from any thread.
#ifndef SVCMAP_TESTS_SUPPORT_STEADY_TRAFFIC_H_
#define SVCMAP_TESTS_SUPPORT_STEADY_TRAFFIC_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/client.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

struct TrafficTarget {
  Request request;  // TCP or UDP. Its timeout is also that of messages on an open connection.
  // The expected servers; empty: any. An answer of another server is a failure.
  std::vector<std::string> servers = {};
  // The endpoints do not change, so no failure is permitted. Failures of other targets are counted
  // separately.
  bool steady = true;
};

struct TrafficOptions {
  // UDP targets are asked; to TCP targets one connection each stays open, and new ones are made.
  std::vector<TrafficTarget> targets;
  std::chrono::microseconds message_every{4000};  // On each open connection.
  std::chrono::microseconds connect_every{1000};  // One target after the other; 0: back to back.
  std::chrono::microseconds ask_every{1000};
};

// Of one kind of traffic.
struct TrafficCount {
  static constexpr std::chrono::milliseconds kSlow{900};  // A lost SYN is sent again after 1 s.

  int64_t attempts = 0;
  int64_t failures = 0;            // To steady targets.
  int64_t tolerated_failures = 0;  // To the others.
  int64_t sent_twice = 0;          // Segments and questions, to steady targets.
  int64_t slow = 0;                // To steady targets, successful but longer than kSlow.
  std::chrono::microseconds longest{0};
};

struct TrafficReport {
  static constexpr size_t kFailuresKept = 20;
  // During a complete rewrite, a packet between two lookups may find neither the old nor the new
  // element (Linux 6.18), in about one of several hundred rewrites. TCP retransmits it; a UDP
  // request is repeated once.
  static constexpr int64_t kDatagramsLost = 1;
  struct Failure {
    std::chrono::microseconds at;  // Since the start of the traffic.
    std::string what;
  };

  TrafficCount open, connect, ask;
  std::vector<Failure> first_failures;  // To steady targets.

  int64_t failures() const { return open.failures + connect.failures + ask.failures; }
  // OK if nothing failed, and nothing had to be sent twice but kDatagramsLost.
  absl::Status Check() const;
  std::string ToString() const;
};

class SteadyTraffic {
 public:
  // Opens the connections that stay open; the rest begins when it returns. `netns` must outlive the
  // call only.
  static absl::StatusOr<std::unique_ptr<SteadyTraffic>> Start(const NetNs& netns,
                                                              TrafficOptions options);
  ~SteadyTraffic();  // Stops.

  // Waits until each kind of traffic that there is has made `count` more attempts, begun after the
  // call.
  absl::Status Go(int64_t count) const;

  TrafficReport Report() const;  // So far.
  TrafficReport Stop();          // What was under way is finished first.

 private:
  using Clock = std::chrono::steady_clock;
  struct OpenFlow {
    const TrafficTarget* target;
    UniqueFd fd;  // Closed once it has failed.
    int64_t sent_twice = 0;
  };

  explicit SteadyTraffic(TrafficOptions options) : options_(std::move(options)) {}
  absl::Status OpenFlows();
  void KeepTalking();
  void KeepConnecting();
  void KeepAsking();
  void Talk(OpenFlow& flow);
  // One attempt, in the report; `error` empty: it succeeded.
  void Count(TrafficCount TrafficReport::*kind, const TrafficTarget& target,
             Clock::time_point started, int64_t sent_twice, const std::string& error);
  // Calls attempt(0), attempt(1) ... until stopped.
  template <typename Attempt>
  void Pace(std::chrono::microseconds every, const Attempt& attempt);

  const TrafficOptions options_;
  const Clock::time_point start_ = Clock::now();
  std::vector<const TrafficTarget*> tcp_;
  std::vector<const TrafficTarget*> udp_;
  std::vector<OpenFlow> flows_;
  std::atomic<int> talking_{0};  // Of flows_, those that are still open.
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  TrafficReport report_;  // Guarded by mutex_.
  std::vector<std::thread> threads_;
};

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_SUPPORT_STEADY_TRAFFIC_H_
