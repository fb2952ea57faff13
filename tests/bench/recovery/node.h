// A node for damage tests. The node runs svcmapd with a state directory and a cluster of any size.
// One of the Services, the victim, has an endpoint that answers. tests/support/damage.h damages the
// victim's addresses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/bench/recovery/probe.h"
#include "tests/support/agent.h"
#include "tests/support/echo_server.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/topology.h"

namespace svcmap::bench {

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

}  // namespace svcmap::bench
