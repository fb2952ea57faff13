// Checks whether kube-proxy has programmed a Service port. The check lists kube-proxy's rules with
// nft or iptables.
#pragma once

#include "absl/status/statusor.h"
#include "tests/bench/cluster/service_port.h"
#include "tests/support/netns.h"

namespace svcmap::bench {

enum class KubeProxyMode { kNftables, kIptables };

// Checks that connections to the port's ClusterIP reach exactly the port's endpoints, or are
// rejected if there are no endpoints. Runs nft or iptables once or twice. In iptables mode, each
// run reads a complete table.
absl::StatusOr<bool> IsProgrammed(const testing::NetNs& netns, KubeProxyMode mode,
                                  const ServicePort& port);

// Checks that connections to the port's ClusterIP are neither translated nor rejected.
absl::StatusOr<bool> IsGone(const testing::NetNs& netns, KubeProxyMode mode,
                            const ServicePort& port);

}  // namespace svcmap::bench
