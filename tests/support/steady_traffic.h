// Traffic that goes on while something happens to the rules: TCP connections that stay open and
// exchange a message every few milliseconds, new TCP connections, and UDP questions, each kind from
// one thread inside a namespace. Counts what fails, and keeps the first failures with their time.
//
// Nothing hides behind the kernel's patience: a UDP question is sent once, and TCP segments that
// had to be sent twice are counted, SYNs among them. Time alone is no failure, as a busy machine
// takes its time; but it is told.
//
//   ASSERT_OK_AND_ASSIGN(auto traffic, SteadyTraffic::Start(client.netns(), targets));
//   ...
//   ASSERT_OK(traffic->Go(100));  // So much went on after it happened.
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
  // Who may answer; empty: anybody. An answer of somebody else is a failure.
  std::vector<std::string> servers = {};
  // Its endpoints do not change: nothing may fail. Failures of others are counted apart.
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
  // A packet that is between two of our look-ups while all elements are written anew may find
  // neither the old one nor the new one (Linux 6.18): one in some hundred rewrites. TCP sends it
  // again; for a question we do.
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
