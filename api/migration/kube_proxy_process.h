// Whether a kube-proxy runs in our network namespace. Reads /proc; changes nothing.
#pragma once

#include <string>
#include <vector>

namespace svcmap::api {

// A phrase, "process 1234 is kube-proxy"; empty if there is no sign of one. Where its process
// cannot be seen, as from within a container, its ports tell: somebody who is none of ours listens
// on one of them. Such a phrase says "port 10256 is taken by somebody".
std::string FindKubeProxy();

std::vector<std::string> InterfaceNames();

// Kube-proxy's mode ipvs makes this interface, and nobody else does.
inline constexpr char kIpvsInterface[] = "kube-ipvs0";
bool HasIpvsInterface();

// Of ipvs, whoever made them: kube-proxy, keepalived.
bool HasVirtualServers();

}  // namespace svcmap::api
