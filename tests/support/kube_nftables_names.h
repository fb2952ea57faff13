// kube-proxy's chain names in nftables mode (S-140). Benchmarks and tests create chains with these
// names.
#pragma once

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "proxy/names/kube_names.h"

namespace svcmap::proxy::test {

inline std::string HashedAndCut(const std::string& path) {
  constexpr size_t kLongest = 240;
  std::string name = KubeHash(path).substr(0, 8) + "-" + path;
  if (name.size() > kLongest) name = name.substr(0, kLongest - 3) + "...";
  return name;
}

inline std::string PortPath(const std::string& service_key, const std::string& port_name,
                            Protocol protocol) {
  return service_key + "/" + absl::AsciiStrToLower(std::string(ProtocolName(protocol))) + "/" +
         port_name;
}

// Returns the chain name after "service-", "local-", "external-" or "firewall-", for example
// "452DNVGS-shop/web/tcp/".
inline std::string KubeChainName(const std::string& service_key, const std::string& port_name,
                                 Protocol protocol) {
  return HashedAndCut(PortPath(service_key, port_name, protocol));
}

// Returns the chain name after "endpoint-" or "affinity-".
inline std::string KubeEndpointChainName(const std::string& service_key,
                                         const std::string& port_name, Protocol protocol,
                                         const EndpointAddress& endpoint) {
  std::string ip = endpoint.ip.ToString();
  std::replace(ip.begin(), ip.end(), ':', '.');
  return HashedAndCut(PortPath(service_key, port_name, protocol) + "__" + ip + "/" +
                      std::to_string(endpoint.port));
}

}  // namespace svcmap::proxy::test
