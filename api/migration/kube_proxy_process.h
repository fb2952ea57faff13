// Detects a kube-proxy in the network namespace of the calling process. Only reads /proc.
#pragma once

#include <string>
#include <vector>

#include "nft/types/node_addresses.h"

namespace svcmap::api {

// Returns "process 1234 is kube-proxy", or "" if there is no sign of kube-proxy. In a container
// without hostPID, kube-proxy's process is not visible. If a process other than svcmap's listens on
// one of kube-proxy's ports, returns "port 10256 is in use by another process, probably
// kube-proxy".
std::string FindKubeProxy();

// Returns the names of all network interfaces.
std::vector<std::string> InterfaceNames();

// Returns the addresses of all interfaces.
std::vector<InterfaceAddress> InterfaceAddresses();

// Name of the interface that only kube-proxy's IPVS mode creates.
inline constexpr char kIpvsInterface[] = "kube-ipvs0";
bool HasIpvsInterface();

// Returns whether IPVS virtual servers exist, created by kube-proxy or by other programs such as
// keepalived.
bool HasVirtualServers();

}  // namespace svcmap::api
