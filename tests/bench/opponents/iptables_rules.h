// What kube-proxy 1.36 in iptables mode hands to iptables-restore (S-203..S-236). Pure: Services
// in, text out; nothing is run here.
//
// As kube-proxy is by default: all addresses take nodePorts, those of IPv4 on 127.0.0.1 too; mark
// 0x4000; no masqueradeAll; conntrack is not liberal. Services stand in the order of the list,
// where kube-proxy walks a Go map, in another order each time. Left out, which favours kube-proxy:
// what it writes in addition if the kernel has nfacct (a counter in KUBE-FORWARD, and one more rule
// per nodePort).
//
// A full sync writes all chains. A partial sync writes the chains that all Services share, with all
// their rules, and the chains SVC, SVL, EXT, FW and SEP of the Services that changed: an unnamed
// chain is left as it is.
//
// Chains that nobody uses any more are flushed and deleted ("clean up") by any sync, full or
// partial, after a look at iptables-save: at each one in a small cluster, and in a large one, of
// more than 1,000 endpoints, if the last clean-up is longer ago than the sync period (30 s). Until
// then they stay, with their rules. A large cluster has no comments at rules for endpoints (S-235);
// a partial sync leaves the others' comments as they were.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/bench/cluster/cluster.h"

namespace svcmap::bench {

struct IptablesOptions {
  std::optional<IpPrefix> cluster_cidr;  // --cluster-cidr. None: nobody is known to be a pod.
  std::optional<IpAddress> node_ip;      // If in a source range, load balancer IPs are let in too.
};

// Whether kube-proxy goes easy on a cluster: see above.
bool IsLargeForIptables(const std::vector<ServicePort>& ports);

class IptablesRules {
 public:
  IptablesRules(Family family, IptablesOptions options)
      : family_(family), options_(std::move(options)) {}

  // The jumps from built-in chains, before all that stands there, and the empty chains by which
  // kube-proxy notices a flush. Once per node. Kube-proxy runs iptables for each of them, at the
  // start, and asks for them again in each full sync.
  std::string SetUp() const;

  // All ports must be of the family.
  std::string FullSync(const std::vector<ServicePort>& ports, bool clean_up);

  // `changes`: all since the last call, in order; `ports` is as it is after. Changes that were not
  // told here leave chains behind.
  std::string PartialSync(const std::vector<ServicePort>& ports,
                          const std::vector<ClusterChange>& changes, bool clean_up);

 private:
  std::string Sync(const std::vector<ServicePort>& ports, const std::set<std::string>* changed,
                   bool clean_up);

  Family family_;
  IptablesOptions options_;
  std::set<std::string> stale_;  // Chains in the kernel that nobody uses.
};

}  // namespace svcmap::bench
