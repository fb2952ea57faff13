// The input that kube-proxy 1.36 in iptables mode passes to iptables-restore (S-203..S-236). All
// functions are pure and convert Services to text.
//
// The configuration has kube-proxy's defaults. nodePorts are open on all addresses, including
// 127.0.0.1 for IPv4. The masquerade mark is 0x4000. masqueradeAll and liberal conntrack are
// disabled. Services keep the order of the list, whereas kube-proxy iterates over a Go map in a
// different order each time. The text omits the additional rules for kernels with nfacct (a counter
// in KUBE-FORWARD, and one more rule per nodePort), which favours kube-proxy.
//
// A full sync writes all chains. A partial sync writes the chains that all Services share, with all
// their rules, and the chains SVC, SVL, EXT, FW and SEP of changed Services. iptables-restore keeps
// other chains.
//
// A sync that cleans up runs iptables-save to find unused chains, and flushes and deletes these
// chains. In clusters with at most 1,000 endpoints, each full or partial sync cleans up. In larger
// clusters, a sync cleans up only if the last cleanup is older than the sync period (30 s). Unused
// chains and their rules stay until the next cleanup. In large clusters, rules for endpoints have
// no comments (S-235). A partial sync does not change the comments in the rules of unchanged
// Services.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/bench/cluster/cluster.h"

namespace svcmap::bench {

struct IptablesOptions {
  // Value of --cluster-cidr. Without --cluster-cidr, no client is treated as a pod.
  std::optional<IpPrefix> cluster_cidr;
  // Address of the node. If a source range contains the node's address, load balancer IPs are also
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
  // kube-proxy detects a flush. When kube-proxy starts, it creates each jump and each empty chain
  // with a separate iptables command. Each full sync checks the jumps and chains.
  std::string SetUp() const;

  // Returns the iptables-restore input for a full sync. All Service ports must have the address
  // family of the rules.
  std::string FullSync(const std::vector<ServicePort>& ports, bool clean_up);

  // Returns the iptables-restore input for a partial sync. `changes` contains all changes since the
  // last call in order. `ports` contains all Service ports after the changes. If a caller omits a
  // change, chains that the change makes unused stay in the kernel.
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
