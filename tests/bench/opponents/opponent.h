// Interface of the compared implementations, which are svcmapd, kube-proxy's modes, and lower
// bounds. All compared implementations load the same cluster and receive the same changes.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/bench/opponents/nftables_rules.h"
#include "tests/bench/process_figures.h"
#include "tests/support/netns.h"
#include "tests/support/topology.h"

namespace svcmap::bench {

// Cost of one sync or change. A negative value means that the compared implementation cannot
// measure the value.
struct Cost {
  double seconds = -1;  // Time from the prepared input to the kernel commit.
  // Time spent in kernel transactions, if the compared implementation can measure this time.
  double kernel_seconds = -1;
  double longest_commit_seconds = -1;
  // CPU time of the processes until they exit. svcmapd keeps running, so Change and Resync measure
  // its CPU time until the acknowledgement. Load measures svcmapd's CPU time until the value stays
  // constant after the last acknowledgement.
  double cpu_seconds = -1;
  int64_t peak_rss_kib = -1;  // Peak memory of the processes that cpu_seconds covers.
};

class Opponent {
 public:
  virtual ~Opponent() = default;

  // Programs the complete cluster on an empty node. Called once. The input of iptables-restore or
  // nft is generated before the time measurement starts. Excluding the generation from the
  // measurement favours kube-proxy, which generates the input in each sync.
  virtual absl::StatusOr<Cost> Load(const Cluster& cluster) = 0;

  // Programs all changes since the last call in one update. `cluster` is the state after the
  // changes. The update is the smallest update that kube-proxy would make in the same proxy mode.
  virtual absl::StatusOr<Cost> Change(const Cluster& cluster,
                                      const std::vector<ClusterChange>& changes) = 0;

  // Performs a full sync over existing rules. Returns Unimplemented for compared implementations
  // without full syncs.
  virtual absl::StatusOr<Cost> Resync(const Cluster& cluster) = 0;

  // Memory and CPU usage of the permanent process. All values are 0 if the compared implementation
  // has no permanent process.
  virtual ProcessMemory Memory() const = 0;
};

struct OpponentSettings {
  // Time limit of one call. A call that exceeds the limit returns DeadlineExceeded, and the
  // implementation is excluded.
  std::chrono::seconds time_limit{120};
  std::string svcmapd;      // Path of the svcmapd binary.
  std::string libnftables;  // Path of svcmap-bench-libnftables.
};

// Returns the names of all compared implementations. The order is "direct", "netlink", "svcmap",
// "iptables-legacy", "iptables-nft", "nftables", "nftables-single", "nftables-shared",
// "nftables-library" and "ipvs".
// "direct" uses no proxy, so Load and Change do nothing.
// "netlink" writes prepared batches and is the lower bound for a sync. "nftables" loads
// kube-proxy 1.36's rules with nft. "nftables-single" and "nftables-shared" load the rules of
// kube-proxy 1.37 and of a proposed design (see NftablesLayout). "nftables-library" loads the rules
// of "nftables" with libnftables.
const std::vector<std::string>& OpponentNames();

// Creates a compared implementation on the node `netns`. The namespace must outlive the returned
// object. Returns NotFound for unknown names, and FailedPrecondition with the reason if this
// machine cannot run the implementation.
absl::StatusOr<std::unique_ptr<Opponent>> MakeOpponent(const std::string& name,
                                                       const testing::NetNs& netns,
                                                       const OpponentSettings& settings);

// MakeOpponent calls these functions, whose files describe the compared implementations.
// MakeIptables returns FailedPrecondition with the output of iptables if iptables is missing or the
// kernel lacks a feature that kube-proxy's rules need. MakeIptables checks only IPv4. Load also
// checks IPv6 if the cluster uses IPv6. MakeNftables returns FailedPrecondition if nft does not
// work, MakeNftablesLibrary if OpponentSettings::libnftables is not executable, and MakeIpvs if
// ipvsadm is missing or the kernel has no IPVS.
using MadeOpponent = absl::StatusOr<std::unique_ptr<Opponent>>;
MadeOpponent MakeNetlink(const testing::NetNs& netns, const OpponentSettings& settings);
MadeOpponent MakeIptables(bool legacy, const testing::NetNs& netns,
                          const OpponentSettings& settings);
MadeOpponent MakeNftables(NftablesLayout layout, const testing::NetNs& netns,
                          const OpponentSettings& settings);
MadeOpponent MakeIpvs(const testing::NetNs& netns, const OpponentSettings& settings);
MadeOpponent MakeNftablesLibrary(const testing::NetNs& netns, const OpponentSettings& settings);

}  // namespace svcmap::bench
