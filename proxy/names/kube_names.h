// The names that kube-proxy's iptables mode gives to the chains of a Service port (S-203), for
// people who move between both worlds: they are printed, nothing is programmed under them.
#pragma once

#include <string>

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

// "10.0.0.1:80", "[fd00::1]:80"
std::string EndpointText(const EndpointAddress& endpoint);

// The 16 characters behind KUBE-SVC-, KUBE-SVL-, KUBE-EXT- and KUBE-FW-, which all four share.
// `service_key` is "namespace/name"; `port_name` may be empty.
std::string KubeServiceHash(const std::string& service_key, const std::string& port_name,
                            Protocol protocol);

// Those behind KUBE-SEP-.
std::string KubeEndpointHash(const std::string& service_key, const std::string& port_name,
                             Protocol protocol, const EndpointAddress& endpoint);

}  // namespace svcmap::proxy
