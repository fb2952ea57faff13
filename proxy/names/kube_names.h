// Computes kube-proxy's chain names for a Service port. svcmapctl prints the names for operators
// who know kube-proxy's rules. The benchmarks also use the names. svcmapd does not create chains
// with these names.
#pragma once

#include <string>

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

// Returns "10.0.0.1:80" or "[fd00::1]:80".
std::string EndpointText(const EndpointAddress& endpoint);

// kube-proxy's chain names in iptables mode (S-203).

// Returns the 16-character suffix of KUBE-SVC-, KUBE-SVL-, KUBE-EXT- and KUBE-FW-. The suffix is
// the same for all four prefixes. `service_key` is "namespace/name", and `port_name` may be empty.
std::string KubeServiceHash(const std::string& service_key, const std::string& port_name,
                            Protocol protocol);

// Returns the 16-character suffix of KUBE-SEP-.
std::string KubeEndpointHash(const std::string& service_key, const std::string& port_name,
                             Protocol protocol, const EndpointAddress& endpoint);

// kube-proxy's chain names in nftables mode (S-140).

// Returns the suffix of "service-", "local-", "external-" and "firewall-", for example
// "452DNVGS-shop/web/tcp/".
std::string KubeChainName(const std::string& service_key, const std::string& port_name,
                          Protocol protocol);

// Returns the suffix of "endpoint-" and "affinity-".
std::string KubeEndpointChainName(const std::string& service_key, const std::string& port_name,
                                  Protocol protocol, const EndpointAddress& endpoint);

}  // namespace svcmap::proxy
