// Interface of a measured Service proxy: svcmapd, the modes of kube-proxy, and lower bounds. All
// opponents load the same cluster and receive the same changes.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/bench/process_figures.h"
#include "tests/support/netns.h"
#include "tests/support/topology.h"

namespace svcmap::bench {

// Cost of one sync or change. Values that an opponent cannot provide are negative.
struct Cost {
  double seconds = -1;         // From prepared input in memory to the kernel commit.
  double kernel_seconds = -1;  // Time in kernel transactions, if it can be distinguished.
  double longest_commit_seconds = -1;
  // CPU time of the processes until they exit. For svcmapd, which keeps running: in Load until its
  // CPU time is constant after the last acknowledgement, in Change and Resync until the
  // acknowledgement.
  double cpu_seconds = -1;
  int64_t peak_rss_kib = -1;  // Peak of the same processes.
};

class Opponent {
 public:
  virtual ~Opponent() = default;

  // Programs the complete cluster on an empty node. Called once.
  // The input of iptables-restore or nft is generated before the clock starts, in favour of
  // kube-proxy, which computes it in each sync.
  virtual absl::StatusOr<Cost> Load(const Cluster& cluster) = 0;

  // Programs all changes since the last call in one update. `cluster` is the state after the
  // changes. The update is the smallest that kube-proxy makes in this mode.
  virtual absl::StatusOr<Cost> Change(const Cluster& cluster,
                                      const std::vector<ClusterChange>& changes) = 0;

  // Performs a full sync over existing rules. Returns Unimplemented for opponents without full
  // syncs.
  virtual absl::StatusOr<Cost> Resync(const Cluster& cluster) = 0;

  // Usage of the permanent process; zeros without one.
  virtual ProcessMemory Memory() const = 0;
};

// --cluster-cidr of all opponents: other clients are masqueraded. Contains the pods of the
// topology.
inline const char* ClusterCidr(Family family) {
  return family == Family::kIpv4 ? testing::kClusterCidrV4 : testing::kClusterCidrV6;
}

struct OpponentSettings {
  // A longer call returns DeadlineExceeded, and the opponent is excluded.
  std::chrono::seconds time_limit{120};
  std::string svcmapd;     // Path of the program.
  std::string kube_proxy;  // Path of kube-proxy; empty: not available.
  std::string kubeconfig;
  std::string kube_proxy_mode = "nftables";  // Or "iptables".
};

// "direct" (no proxy: Load and Change do nothing), "netlink" (the floor: raw batches into constant
// maps), "svcmap", "iptables-legacy", "iptables-nft", "nftables" (kube-proxy 1.36's layout, by
// nft), "nftables-single" (the same, but without a map where there is one endpoint; nftables.h),
// and, with a program, "kube-proxy". In this order.
const std::vector<std::string>& OpponentNames();

// Creates an opponent on the node `netns`, which must outlive it. Returns NotFound for other names,
// and FailedPrecondition with the reason if this machine cannot run it.
absl::StatusOr<std::unique_ptr<Opponent>> MakeOpponent(const std::string& name,
                                                       const testing::NetNs& netns,
                                                       const OpponentSettings& settings);

}  // namespace svcmap::bench
