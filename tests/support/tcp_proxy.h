// A TCP proxy on a loopback address of a namespace, which can fail like a broken network.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/netns.h"

namespace svcmap::testing {

class TcpProxy {
 public:
  // Accepts connections on 127.0.0.1:`port` and forwards them to 127.0.0.1:`destination`. `netns`
  // must outlive the proxy.
  static absl::StatusOr<std::unique_ptr<TcpProxy>> Start(const NetNs& netns, uint16_t port,
                                                         uint16_t destination);
  ~TcpProxy();

  // Keeps the existing connections open, but discards their data. New connections are forwarded.
  void SwallowExisting() { ++swallow_; }
  // Closes the existing connections, and closes new connections until the call with false.
  void Refuse(bool refuse) { refuse_ = refuse; }
  // Forwards all data only after `delay`, in both directions, and also on new connections. With a
  // long delay, the proxy is dead: it accepts connections and keeps them open.
  void Delay(std::chrono::milliseconds delay) { delay_ = delay; }
  int accepted() const { return accepted_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Pair {
    UniqueFd ends[2];
    std::deque<std::pair<Clock::time_point, std::string>> received[2];  // Not forwarded yet.
    bool swallows = false;
  };

  TcpProxy(const NetNs& netns, UniqueFd listener, uint16_t destination);
  void Run();
  void Accept();
  bool Forward(Pair& pair);  // Returns false if the connection has ended.

  const NetNs& netns_;
  const UniqueFd listener_;
  const uint16_t destination_;
  std::atomic<bool> stopping_ = false, refuse_ = false;
  std::atomic<int> swallow_ = 0, accepted_ = 0;
  std::atomic<std::chrono::milliseconds> delay_{};
  std::vector<Pair> pairs_;  // Used by the thread only.
  std::thread thread_;       // Last, because the thread uses all members above.
};

}  // namespace svcmap::testing
