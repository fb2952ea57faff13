// Sends UDP datagrams, each of a new flow, at a constant rate. One thread in the client's namespace
// writes complete IPv4 packets with changing source addresses to a raw socket.
//
// A source address is used again after all other addresses, so the conntrack timeout of the node
// must be shorter than `sources` divided by the rate of one target.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

struct FlowTarget {
  uint16_t source_port = 0;  // Source port of all datagrams to this target.
  std::string address;
  uint16_t port = 0;
};

struct FlowOptions {
  std::vector<FlowTarget> targets;
  uint32_t first_source = 0;  // The first source address, in host byte order.
  int sources = 1;            // Number of source addresses.
  int per_second = 40000;     // Flows to all targets together.
  // The generator stops after this time, even if a test does not call Stop().
  std::chrono::seconds longest{900};
};

class FlowGenerator {
 public:
  // `netns` is used only during the call.
  static absl::StatusOr<std::unique_ptr<FlowGenerator>> Start(const NetNs& netns,
                                                              FlowOptions options);
  ~FlowGenerator();  // Stops the traffic.

  // Waits until `flows` more datagrams are sent.
  absl::Status Go(int64_t flows) const;
  void Stop();

  int64_t sent() const { return sent_; }
  double per_second() const;  // The rate since Start(), after Stop().

 private:
  using Clock = std::chrono::steady_clock;
  struct Datagram;

  FlowGenerator(UniqueFd socket, FlowOptions options)
      : socket_(std::move(socket)), options_(std::move(options)) {}
  void Send();
  // Sends `count` datagrams. The number of the first datagram is `first`.
  int SendBatch(int64_t first, int count);

  const UniqueFd socket_;
  const FlowOptions options_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point end_;
  std::atomic<int64_t> sent_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace svcmap::testing
