// Health of svcmapd, as reported by /healthz, /livez and the metrics.
#pragma once

#include "api/daemon/options.h"
#include "proxy/health/health.h"
#include "proxy/reconcile/loop.h"

namespace svcmap::api {

// `watching` is true if the kernel notifies svcmapd when another process changes svcmapd's tables.
proxy::Health HealthOf(const proxy::LoopStatus& status, bool watching,
                       const DaemonOptions& options);

}  // namespace svcmap::api
