// Whether a kube-proxy has programmed a Service port: by looking at its rules with the tool it
// writes them with.
#pragma once

#include "absl/status/statusor.h"
#include "tests/bench/cluster/service_port.h"
#include "tests/support/netns.h"

namespace svcmap::bench {

enum class KubeProxyMode { kNftables, kIptables };

// That connections to its ClusterIP go to its endpoints, all of them and no others; or that they
// are rejected, if it has none. One or two runs of nft or iptables; in iptables mode each reads a
// whole table.
absl::StatusOr<bool> IsProgrammed(const testing::NetNs& netns, KubeProxyMode mode,
                                  const ServicePort& port);

// That its ClusterIP is neither sent anywhere nor rejected.
absl::StatusOr<bool> IsGone(const testing::NetNs& netns, KubeProxyMode mode,
                            const ServicePort& port);

}  // namespace svcmap::bench
