// Continuous traffic during rule changes: open TCP connections that exchange a message every few
// milliseconds, new TCP connections, and UDP requests. Each kind of traffic runs in one thread
// inside a namespace. SteadyTraffic counts failures and stores the first failures with their time.
//
// Packet loss is visible, because the report counts repeated UDP requests and retransmitted TCP
// segments, including SYNs. A slow answer is reported but is not a failure, because the machine may
// be busy.
//
// ASSERT_OK_AND_ASSIGN(auto traffic, SteadyTraffic::Start(client.netns(), targets));
// ...
// ASSERT_OK(traffic->Go(100));  // Waits for 100 more exchanges.
// EXPECT_OK(traffic->Stop().Check());
//
// EchoServer provides the servers. All methods may be called from any thread.
#pragma once

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
  // The TCP or UDP request of this target. The request's timeout also applies to messages on an
  // open connection.
  Request request;
  // Names of the servers that may answer. If `servers` is empty, any server may answer. An answer
  // from another server is a failure.
  std::vector<std::string> servers = {};
  // True if the target's endpoints do not change, so that no failure is permitted. Failures of
  // other targets are counted separately.
  bool steady = true;
};

struct TrafficOptions {
  // Each UDP target receives requests. For each TCP target, one connection stays open and new
  // connections are opened.
  std::vector<TrafficTarget> targets;
  std::chrono::microseconds message_every{4000};  // Interval of messages on each open connection.
  // Interval between connection attempts, which alternate between the targets. 0 starts the next
  // attempt immediately.
  std::chrono::microseconds connect_every{1000};
  std::chrono::microseconds ask_every{1000};
};

// Counters of one kind of traffic.
struct TrafficCount {
  // Minimum duration of a slow attempt. The kernel retransmits a lost SYN after 1 s.
  static constexpr std::chrono::milliseconds kSlow{900};

  int64_t attempts = 0;
  int64_t failures = 0;            // Failures of steady targets.
  int64_t tolerated_failures = 0;  // Failures of targets that are not steady.
  // Number of retransmitted segments and repeated requests of steady targets.
  int64_t sent_twice = 0;
  // Successful attempts of steady targets that took longer than kSlow.
  int64_t slow = 0;
  std::chrono::microseconds longest{0};
};

struct TrafficReport {
  static constexpr size_t kFailuresKept = 20;
  struct Failure {
    std::chrono::microseconds at;  // Time of the failure since the start of the traffic.
    std::string what;
  };

  TrafficCount open, connect, ask;
  std::vector<Failure> first_failures;  // The first failures of steady targets.

  int64_t failures() const { return open.failures + connect.failures + ask.failures; }
  // Returns OK if there were no failures and nothing had to be sent twice. If SlowFactor() is above
  // 1, TCP may repeat segments if a UDP question took as long as TCP waits before it repeats a
  // segment.
  absl::Status Check() const;
  std::string ToString() const;
};

class SteadyTraffic {
 public:
  // Opens the permanent connections, then starts all other traffic. `netns` is used only during the
  // call.
  static absl::StatusOr<std::unique_ptr<SteadyTraffic>> Start(const NetNs& netns,
                                                              TrafficOptions options);
  ~SteadyTraffic();  // Stops the traffic.

  // Waits until each active kind of traffic has completed `count` more attempts that started after
  // this call.
  absl::Status Go(int64_t count) const;

  TrafficReport Report() const;  // Returns the results of the traffic so far.
  // Stops the traffic after the attempts in progress, and returns the results.
  TrafficReport Stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct OpenFlow {
    const TrafficTarget* target;
    UniqueFd fd;  // Descriptor of the connection. Closed after a failure.
    int64_t sent_twice = 0;
  };

  explicit SteadyTraffic(TrafficOptions options) : options_(std::move(options)) {}
  absl::Status OpenFlows();
  void KeepSending();
  void KeepConnecting();
  void KeepAsking();
  void Run(OpenFlow& flow);
  // Adds one attempt to the report. An empty `error` means success.
  void Count(TrafficCount TrafficReport::*kind, const TrafficTarget& target,
             Clock::time_point started, int64_t sent_twice, const std::string& error);
  // Calls attempt(0), attempt(1) ... until the traffic is stopped.
  template <typename Attempt>
  void Pace(std::chrono::microseconds every, const Attempt& attempt);

  const TrafficOptions options_;
  const Clock::time_point start_ = Clock::now();
  std::vector<const TrafficTarget*> tcp_;
  std::vector<const TrafficTarget*> udp_;
  std::vector<OpenFlow> flows_;
  std::atomic<int> sending_{0};  // Number of open connections in flows_.
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  TrafficReport report_;  // Results so far. Guarded by mutex_.
  std::vector<std::thread> threads_;
};

}  // namespace svcmap::testing
