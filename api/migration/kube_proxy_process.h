// Detects a kube-proxy in the network namespace of the calling process. Only reads /proc.
#pragma once

#include <string>
#include <vector>

namespace svcmap::api {

// Returns "process 1234 is kube-proxy", or "" if there is no sign of kube-proxy. In a container
// without hostPID the process is not visible. Then a listener of another process on one of
// kube-proxy's ports counts: "port 10256 is in use by another process, probably kube-proxy".
std::string FindKubeProxy();

// Returns the names of all network interfaces.
std::vector<std::string> InterfaceNames();

// Interface that only kube-proxy's ipvs mode creates.
inline constexpr char kIpvsInterface[] = "kube-ipvs0";
bool HasIpvsInterface();

// Returns whether IPVS virtual servers exist, created by kube-proxy or by other programs such as
// keepalived.
bool HasVirtualServers();

}  // namespace svcmap::api
