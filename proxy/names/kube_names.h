// Computes kube-proxy's chain names for a Service port, in iptables mode (S-203). svcmapctl prints
// the names for operators who know kube-proxy's rules. svcmapd does not create chains with these
// names.
#pragma once

#include <string>

#include "proxy/resolve/endpoints.h"

namespace svcmap::proxy {

// Returns kube-proxy's hash of a text, which has 16 characters.
std::string KubeHash(const std::string& text);

// Returns the 16-character suffix of KUBE-SVC-, KUBE-SVL-, KUBE-EXT- and KUBE-FW-. The suffix is
// the same for all four prefixes. `service_key` is "namespace/name", and `port_name` may be empty.
std::string KubeServiceHash(const std::string& service_key, const std::string& port_name,
                            Protocol protocol);

// Returns the 16-character suffix of KUBE-SEP-.
std::string KubeEndpointHash(const std::string& service_key, const std::string& port_name,
                             Protocol protocol, const EndpointAddress& endpoint);

}  // namespace svcmap::proxy
