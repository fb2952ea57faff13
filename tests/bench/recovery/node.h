// A node for damage tests. The node runs svcmapd with a state directory and a cluster of any size.
// One of the Services, the victim, has an endpoint that answers. tests/support/damage.h damages the
// victim's addresses.
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
#include "nft/netlink/netlink_kernel.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/support/agent.h"
#include "tests/support/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/netns.h"
#include "tests/support/socket_address.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/topology.h"

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

// Sends thousands of requests per second to a Service, each from a different port, to measure
// interruptions. Each probe uses one thread and either UDP or TCP.
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

class RecoveryNode {
 public:
  // Creates a node without an agent. `svcmapd` is the path of the binary. If the path is empty, the
  // binary of this build is used.
  static absl::StatusOr<std::unique_ptr<RecoveryNode>> Create(const std::string& svcmapd = "");

  // Launch and Start run an agent with the state directory. If an agent is running, the new agent
  // replaces it. Launch returns before the agent answers.
  absl::Status Launch();
  absl::Status Start();
  absl::Status Stop();  // Stops the agent with SIGTERM.
  absl::Status Kill();  // Kills the agent with SIGKILL.
  testing::Agent& agent() { return *agent_; }

  // Replaces the agent's state with the node, the victim, another Service and a cluster of the
  // given shape. Waits until the state is on disk.
  absl::Status Load(const ClusterShape& shape);

  // Returns OK if the agent reports the state as serving, has verified the kernel, and has made at
  // least `repairs` repairs since its start.
  absl::Status Reports(uint64_t repairs);
  // Polls for at most 30 seconds until Reports and CheckKernel succeed. Returns the time when
  // Reports succeeded.
  absl::StatusOr<Clock::time_point> AwaitRepair(uint64_t repairs);
  // Returns OK if the kernel has the desired state according to nft. The expected rules are the
  // rules that nft listed during the last Load call.
  absl::Status CheckKernel();
  bool Healthy();  // Returns true if /healthz reports a healthy agent.

  // Starts a probe that connects to the victim from outside the cluster.
  absl::StatusOr<std::unique_ptr<Probe>> StartProbe(testing::Protocol protocol,
                                                    std::chrono::microseconds every);

  const testing::NetNs& netns() const { return topology_->node().netns(); }

 private:
  RecoveryNode(testing::TemporaryFolder folder, std::string svcmapd)
      : folder_(std::move(folder)), svcmapd_(std::move(svcmapd)) {}
  absl::Status Build();

  testing::TemporaryFolder folder_;
  const std::string svcmapd_;
  std::unique_ptr<testing::Topology> topology_;
  const testing::Host* pod_ = nullptr;
  const testing::Host* other_pod_ = nullptr;
  const testing::Host* client_ = nullptr;
  std::vector<std::string> client_addresses_;
  std::vector<std::unique_ptr<testing::EchoServer>> servers_;
  std::unique_ptr<testing::Agent> agent_;
  std::string rules_;
};

// Detects nf_tables changes in a network namespace by polling the generation id. A poll takes
// microseconds, whereas the duration of an nft run increases with the size of the tables.
class CommitWatch {
 public:
  static constexpr std::chrono::microseconds kEvery{200};

  // Commits that CommitWatch has detected. A reported time is at most kEvery later than the commit.
  // Before the first commit, `first` and `last` are the start time.
  struct Commits {
    uint32_t generation = 0;  // The generation id after the last change.
    uint32_t count = 0;       // Number of changes of the generation id since the start.
    std::chrono::steady_clock::time_point first, last;
  };

  static absl::StatusOr<std::unique_ptr<CommitWatch>> Start(const testing::NetNs& netns);
  ~CommitWatch();

  Commits Seen() const;

 private:
  explicit CommitWatch(std::unique_ptr<nft::NetlinkKernel> kernel) : kernel_(std::move(kernel)) {}
  void Run();

  std::unique_ptr<nft::NetlinkKernel> kernel_;
  mutable std::mutex mutex_;
  Commits seen_;  // Detected commits. Guarded by mutex_.
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace svcmap::bench
