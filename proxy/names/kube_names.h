// The names that kube-proxy gives to the chains of a Service port, for people who move between both
// worlds, and for benchmarks: svcmapd prints some of them, it programs nothing under them.
#pragma once

#include <string>

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

// "10.0.0.1:80", "[fd00::1]:80"
std::string EndpointText(const EndpointAddress& endpoint);

// iptables mode (S-203).

// The 16 characters behind KUBE-SVC-, KUBE-SVL-, KUBE-EXT- and KUBE-FW-, which all four share.
// `service_key` is "namespace/name"; `port_name` may be empty.
std::string KubeServiceHash(const std::string& service_key, const std::string& port_name,
                            Protocol protocol);

// Those behind KUBE-SEP-.
std::string KubeEndpointHash(const std::string& service_key, const std::string& port_name,
                             Protocol protocol, const EndpointAddress& endpoint);

// nftables mode (S-140).

// What stands behind "service-", "local-", "external-" and "firewall-": "452DNVGS-shop/web/tcp/".
std::string KubeChainName(const std::string& service_key, const std::string& port_name,
                          Protocol protocol);

// What stands behind "endpoint-" and "affinity-".
std::string KubeEndpointChainName(const std::string& service_key, const std::string& port_name,
                                  Protocol protocol, const EndpointAddress& endpoint);

}  // namespace svcmap::proxy
