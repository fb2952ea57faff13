// A service proxy to be measured: svcmapd, what kube-proxy does in each of its modes, and the
// floors. All are loaded with the same cluster and told of the same changes.
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

// Of one sync or one change. Absent figures are negative: not every opponent can tell all.
struct Cost {
  double seconds = -1;         // From all that is needed being in memory to the kernel having it.
  double kernel_seconds = -1;  // Of it the kernel's transactions, where they can be told apart.
  double longest_commit_seconds = -1;
  // Of the process or processes that did it, until they ended. Of svcmapd, which stays: in Load
  // with what it still does after its last acknowledgement, until its CPU time stands still; in
  // Change and Resync only up to the acknowledgement, so that one can follow the other at once.
  double cpu_seconds = -1;
  int64_t peak_rss_kib = -1;  // Of the same.
};

class Opponent {
 public:
  virtual ~Opponent() = default;

  // Programs the whole cluster on a node that has none of it. Once.
  // What kube-proxy would compute in Go before it calls iptables-restore or nft is made before the
  // clock starts, and costs nothing here: that favours the opponents.
  virtual absl::StatusOr<Cost> Load(const Cluster& cluster) = 0;

  // Brings in what changed since the last call, all at once; `cluster` is already as it is after.
  // The change is the smallest that kube-proxy in this mode makes.
  virtual absl::StatusOr<Cost> Change(const Cluster& cluster,
                                      const std::vector<ClusterChange>& changes) = 0;

  // Does everything once more with Services in place: a full sync. Unimplemented where there is
  // none.
  virtual absl::StatusOr<Cost> Resync(const Cluster& cluster) = 0;

  // Of the process that stays; zeros where none does.
  virtual ProcessMemory Memory() const = 0;
};

// --cluster-cidr of all of them: who asks from elsewhere is masqueraded. Topology's pods are there.
inline const char* ClusterCidr(Family family) {
  return family == Family::kIpv4 ? testing::kClusterCidrV4 : testing::kClusterCidrV6;
}

struct OpponentSettings {
  // A call that takes longer ends with DeadlineExceeded; the opponent is of no more use then.
  std::chrono::seconds time_limit{120};
  std::string svcmapd;     // Path of the program.
  std::string kube_proxy;  // The same; empty: not there.
  std::string kubeconfig;
  std::string kube_proxy_mode = "nftables";  // Or "iptables".
};

// "direct" (no proxy: Load and Change do nothing), "netlink" (the floor: raw batches into constant
// maps), "svcmap", "iptables-legacy", "iptables-nft", "nftables" (kube-proxy 1.36's layout, by
// nft), "nftables-single" (the same, but without a map where there is one endpoint; nftables.h),
// and, with a program, "kube-proxy". In this order.
const std::vector<std::string>& OpponentNames();

// On the node `netns`, which must outlive it. NotFound for other names, FailedPrecondition with the
// reason if this machine cannot run it.
absl::StatusOr<std::unique_ptr<Opponent>> MakeOpponent(const std::string& name,
                                                       const testing::NetNs& netns,
                                                       const OpponentSettings& settings);

}  // namespace svcmap::bench
