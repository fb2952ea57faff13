// A node to be damaged: svcmapd on a state folder, a cluster of any size, and one Service with an
// endpoint that answers, at the address that tests/support/damage.h aims at.
#pragma once

#include <memory>
#include <optional>
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
  // Empty, with no agent. `svcmapd`: the path of the program; empty: the one of this build.
  static absl::StatusOr<std::unique_ptr<RecoveryNode>> Create(const std::string& svcmapd = "");

  // An agent on the state folder, in place of the one that runs. Launch returns at once.
  absl::Status Launch();
  absl::Status Start();
  absl::Status Stop();  // SIGTERM.
  absl::Status Kill();  // SIGKILL.
  testing::Agent& agent() { return *agent_; }

  // Tells the agent of the node, the victim, another Service, and a cluster of that shape, in place
  // of everything it knew; then waits until that is on disk.
  absl::Status Load(const ClusterShape& shape);
  // One Service of the cluster gets another endpoint instead of one of its own.
  v1::Change NextChange();

  // OK if the agent serves, knows the kernel to be as wanted, and has repaired it `repairs` times
  // or more since it was started.
  absl::Status Reports(uint64_t repairs);
  // When it Reports that, and the kernel is as wanted: polls for both, for 30 seconds.
  absl::StatusOr<Clock::time_point> AwaitRepair(uint64_t repairs);
  // OK if the kernel is as wanted, by nft. `rules` as of the last Load.
  absl::Status CheckKernel();
  bool Healthy();  // By /healthz.

  // Asks the victim, from outside.
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
  std::optional<Cluster> cluster_;
  size_t changes_ = 0;
};

}  // namespace svcmap::bench
