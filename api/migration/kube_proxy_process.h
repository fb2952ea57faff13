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

// A phrase if kube-proxy's mode ipvs left its interface or virtual servers; empty otherwise.
std::string FindIpvs();

}  // namespace svcmap::api
