// Defaults and validation of kube-proxy's configuration. Pure functions.
#pragma once

#include "api/config/kube_proxy_config.h"

namespace svcmap::api {

// Replaces 0 and "" with kube-proxy's defaults in fields for which these values mean the default.
// Adds the default port to addresses without a port.
void ApplyConfigurationDefaults(KubeProxyConfiguration& config);

// Adds an error to `result.errors` for each invalid value.
void CheckConfiguration(ReadConfiguration& result);

}  // namespace svcmap::api
