// The configuration as /configz tells it (S-267): a JSON object with the names of the file. Pure.
#pragma once

#include <string>

#include "api/config/kube_proxy_config.h"

namespace svcmap::api {

// {"kubeproxy.config.k8s.io": {...}}, what was not said as its default.
std::string ConfigzText(const KubeProxyConfiguration& config);

}  // namespace svcmap::api
