// What is wrong with a configuration that could be read. Pure.
#pragma once

#include "api/config/kube_proxy_config.h"

namespace svcmap::api {

// Puts kube-proxy's defaults where 0 and "" stand for them, and ports behind addresses that have
// none.
void ApplyConfigurationDefaults(KubeProxyConfiguration& config);

// Adds every value out of its range to `result.errors`.
void CheckConfiguration(ReadConfiguration& result);

}  // namespace svcmap::api
