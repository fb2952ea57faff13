// The compared implementation "kube-proxy" runs a real kube-proxy in the network namespace of the
// node. A real API server is the source of Services. So far this code has only been tested with
// fake kube-proxy and kubectl scripts (tests/bench/test/kube_proxy_test.cc).
//
// Required settings and tools:
//
// - `kube_proxy`: the path of a kube-proxy binary. The checks of the rules expect kube-proxy 1.34
// or later.
//
// - `kubeconfig`: administrator access to an API server for test objects. An etcd and a
// kube-apiserver on this machine are sufficient. Controllers and nodes are not required. The
// Service range must contain 10.96.0.0/15, but the API server must not allocate addresses from
// 10.96.0.0/15. The nodePort range must contain 10000 to 60000. For example, start kube-apiserver
// with --service-cluster-ip-range=10.0.0.0/8 --service-node-port-range=10000-60000.
//
// - kubectl, and nft or iptables, in PATH.
//
// kube-proxy connects to the API server through a forwarder at 127.0.0.1.
//
// The benchmark creates the namespaces ID-NAMESPACE, Services, EndpointSlices, and the Node
// "node-0". All objects have the label svcmap-bench=ID. At the end, the benchmark deletes all
// objects that have this label. Without controllers, the empty namespaces stay in phase
// Terminating. The API server must not contain other Services except `kubernetes`.
//
// The Load measurement begins with the start of kube-proxy and ends with the commit that programs
// the first, a middle and the last Service. All objects exist in the API server before kube-proxy
// starts, so the time includes kube-proxy's start and its first list, but not kubectl.
//
// The Change measurement begins when kubectl exits and the API server has the change. The time
// includes neither kubectl nor earlier work of kube-proxy, which favours kube-proxy.
//
// In nftables mode, commits are detected within half a millisecond, and nft lists the rules after
// each commit. In iptables mode, the rules are listed repeatedly, so the resolution is the time of
// a listing, from milliseconds to seconds.
//
// CPU time includes kube-proxy and the tools that kube-proxy has reaped. The memory measurement
// includes only kube-proxy.
//
// kube-proxy runs with its defaults, with two exceptions. First, kube-proxy does not write
// conntrack sysctls. Second, --iptables-min-sync-period is 1 ms instead of 1 s, so that consecutive
// changes do not wait for each other. The shorter interval favours kube-proxy.
//
// Load balancer IPs are not implemented, because they are part of the status, which only a
// controller writes. A resync on demand is not implemented either.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {

// Returns an ID that no other benchmark on this machine uses.
std::string UniqueBenchId();

// Returns the Service port as named in the API server. The name of the namespace starts with `id`
// and a dash.
ServicePort InApiServer(const std::string& id, ServicePort port);

// Returns FailedPrecondition if a path is missing or kubectl cannot be run.
absl::StatusOr<std::unique_ptr<Opponent>> MakeKubeProxy(const testing::NetNs& netns,
                                                        const OpponentSettings& settings,
                                                        std::string id = UniqueBenchId());

}  // namespace svcmap::bench
