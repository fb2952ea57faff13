// The input that kube-proxy 1.36 in iptables mode passes to iptables-restore (S-203..S-236). Pure
// functions from Services to text.
//
// Uses kube-proxy's defaults. All addresses accept nodePorts, including 127.0.0.1 for IPv4. The
// mark is 0x4000, and masqueradeAll and liberal conntrack are off. Services are in the order of the
// list, whereas kube-proxy iterates over a Go map in a different order each time. The text omits
// the additional rules for kernels with nfacct (a counter in KUBE-FORWARD, and one more rule per
// nodePort), which favours kube-proxy.
//
// A full sync writes all chains. A partial sync writes the chains that all Services share, with all
// their rules, and the chains SVC, SVL, EXT, FW and SEP of changed Services. iptables-restore keeps
// other chains.
//
// A sync that cleans up runs iptables-save to find unused chains, and flushes and deletes these
// chains. In clusters with at most 1,000 endpoints, each full or partial sync cleans up. In larger
// clusters, a sync cleans up only if the last cleanup is older than the sync period (30 s). Until
// then, unused chains stay with their rules. In large clusters, rules for endpoints have no
// comments (S-235). A partial sync does not change the comments of other Services.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/bench/cluster/cluster.h"

namespace svcmap::bench {

struct IptablesOptions {
  // Value of --cluster-cidr. If empty, no client counts as a pod.
  std::optional<IpPrefix> cluster_cidr;
  // Address of the node. If a source range contains this address, load balancer IPs are also
  // accepted as sources.
  std::optional<IpAddress> node_ip;
};

// Returns true if kube-proxy treats the cluster as large (more than 1,000 endpoints).
bool IsLargeForIptables(const std::vector<ServicePort>& ports);

class IptablesRules {
 public:
  IptablesRules(Family family, IptablesOptions options)
      : family_(family), options_(std::move(options)) {}

  // Returns the jumps at the beginning of built-in chains, and the empty chains with which
  // kube-proxy detects a flush. kube-proxy creates these jumps and chains once per node: it runs
  // one iptables command for each at the start, and checks them in each full sync.
  std::string SetUp() const;

  // Returns the input of a full sync. All Service ports must belong to the family.
  std::string FullSync(const std::vector<ServicePort>& ports, bool clean_up);

  // Returns the input of a partial sync. `changes` contains all changes since the last call in
  // order, and `ports` is the state after these changes. If a caller omits a change, chains
  // that the change makes unused stay in the kernel.
  std::string PartialSync(const std::vector<ServicePort>& ports,
                          const std::vector<ClusterChange>& changes, bool clean_up);

 private:
  std::string Sync(const std::vector<ServicePort>& ports, const std::set<std::string>* changed,
                   bool clean_up);

  Family family_;
  IptablesOptions options_;
  std::set<std::string> stale_;  // Unused chains that still exist in the kernel.
};

}  // namespace svcmap::bench
