// Formats the content of /configz (S-267): the configuration as JSON, with the field names of the
// configuration file.
#pragma once

#include <string>

#include "api/config/kube_proxy_config.h"

namespace svcmap::api {

// Returns {"kubeproxy.config.k8s.io": {...}} with all fields, including defaults.
std::string ConfigzText(const KubeProxyConfiguration& config);

}  // namespace svcmap::api
