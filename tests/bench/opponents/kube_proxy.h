// Opponent "kube-proxy": a real one, run in the namespace of the node, and a real API server that
// tells it of Services. SO FAR THIS HAS BEEN RUN ONLY AGAINST STAND-INS for kube-proxy and kubectl
// (tests/bench/test/kube_proxy_test.cc).
//
// What it needs:
//   - `kube_proxy`: a kube-proxy binary (1.34 or later is what the rules are looked at with).
//   - `kubeconfig`: of an administrator of an API server that may be filled and emptied: an etcd
//   and
//     a kube-apiserver on this machine are enough, no controllers or nodes are needed. Its Service
//     range must hold 10.96.0.0/15 without handing out those addresses by itself, its nodePort
//     range 10000 to 60000: --service-cluster-ip-range=10.0.0.0/8
//     --service-node-port-range=10000-60000.
//   - kubectl, and nft or iptables, in PATH.
// kube-proxy reaches the API server through a forwarder: it sees a server at 127.0.0.1.
//
// What it makes there: namespaces ID-NAMESPACE, Services, EndpointSlices, and the Node "node-0",
// all with the label svcmap-bench=ID, and deletes by that label at the end. Where no controller
// runs the empty namespaces stay "Terminating". No Service may be there besides, but for
// `kubernetes`.
//
// What is measured:
//   - Load: from the start of kube-proxy to the commit after which the last Service, the first and
//     one in the middle are programmed. All objects are in the API server by then, so kube-proxy's
//     own start and its first list are in it, and kubectl is not.
//   - Change: from the end of kubectl, when the API server has the change. What kube-proxy did
//     before that end is not counted, and what kubectl takes is not either: both favour kube-proxy.
//   - In nftables mode commits are seen within half a millisecond, and nft is asked after each of
//     them whether that was it. In iptables mode the rules are listed again and again: the
//     resolution is what a listing takes, some milliseconds to seconds.
//   - CPU time is that of kube-proxy with the tools it ran, up to where it has waited for them. Its
//     memory is its own, without those tools.
// kube-proxy runs with its defaults, except: nothing is written to conntrack's sysctls, and two
// syncs may follow each other at once (--iptables-min-sync-period, 1 s by default), so that changes
// measured one after the other do not wait for each other: this favours kube-proxy, too.
//
// Unimplemented: load balancer IPs, which are status and need a controller; a resync on demand.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

// One that no other opponent on this machine has.
std::string UniqueBenchId();

// As the Services are called there: its namespace gets `id` and a dash in front.
ServicePort InApiServer(const std::string& id, ServicePort port);

// FailedPrecondition if one of the paths is missing or kubectl does not run.
absl::StatusOr<std::unique_ptr<Opponent>> MakeKubeProxy(const testing::NetNs& netns,
                                                        const OpponentSettings& settings,
                                                        std::string id = UniqueBenchId());

}  // namespace svcmap::bench
