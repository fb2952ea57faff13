// Sends thousands of requests per second to a Service, each from a different port, to measure
// interruptions. Each probe uses one thread and either UDP or TCP.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/answer.h"
#include "tests/support/netns.h"
#include "tests/support/socket_address.h"

namespace svcmap::bench {

using Clock = std::chrono::steady_clock;

struct ProbeOptions {
  testing::Protocol protocol = testing::Protocol::kUdp;
  std::string ip;
  uint16_t port = 0;
  std::string server;  // Server name that answers must contain.
  // Source addresses. The probe uses the addresses in turn, so that a request does not reuse the
  // conntrack entry of an untranslated flow.
  std::vector<std::string> sources;
  std::chrono::microseconds every{500};
};

class Probe {
 public:
  static absl::StatusOr<std::unique_ptr<Probe>> Start(const testing::NetNs& netns,
                                                      ProbeOptions options);
  ~Probe();

  // Stops the probe and returns the duration of the interruption after `from`. The interruption
  // ends with the first request after the last failed request. Returns 0 if all requests were
  // answered. A request fails if no answer arrives within kPatience.
  std::chrono::duration<double, std::milli> StopAndMeasure(Clock::time_point from);

 private:
  static constexpr std::chrono::milliseconds kPatience{500};
  struct Sample {
    Clock::time_point asked;
    bool answered = false;
  };
  struct Open {
    UniqueFd fd;
    size_t sample;
  };

  explicit Probe(ProbeOptions options) : options_(std::move(options)) {}
  void Run();
  void Ask();
  void Listen(std::chrono::microseconds timeout);
  void Forget(Clock::time_point before);
  void Stop();

  const ProbeOptions options_;
  testing::SocketAddress destination_;
  UniqueFd epoll_;
  // Ring buffer of pending requests, indexed by sample number. The buffer has more than `kPatience
  // / every` entries.
  std::vector<Open> open_;
  std::vector<Sample> samples_;
  size_t oldest_ = 0;  // Index of the first sample whose request may still be pending.
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace svcmap::bench
