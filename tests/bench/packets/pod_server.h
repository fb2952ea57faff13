// Simulates all pods of a cluster in one thread. Accepts TCP connections and echoes datagrams at
// every address of its namespace.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/base/unique_fd.h"
#include "tests/support/netns.h"

namespace svcmap::bench {

class PodServer {
 public:
  // Starts servers for IPv4 and IPv6. The thread runs on CPU `cpu`, or on any CPU if `cpu` is
  // negative.
  static absl::StatusOr<std::unique_ptr<PodServer>> Start(const testing::NetNs& netns,
                                                          uint16_t port, int cpu);
  ~PodServer();

  // If `spinning` is true, the thread spins instead of sleeping, because a wakeup takes longer than
  // the evaluation of most rulesets.
  void set_spinning(bool spinning);

 private:
  PodServer() = default;
  absl::Status Open(uint16_t port);
  absl::Status Watch(int fd);
  void Run(int cpu);
  void TakeConnections();
  void GiveBack();

  UniqueFd epoll_, wake_, tcp_, udp_;
  // Sockets of accepted connections. The server keeps a socket open long enough for the client to
  // close the connection first.
  std::array<UniqueFd, 256> taken_;
  size_t next_taken_ = 0;
  std::atomic<bool> spinning_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace svcmap::bench
