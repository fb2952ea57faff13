// Whether this agent does its work, as /healthz and the metrics say it.
#pragma once

#include <chrono>

#include "api/daemon/options.h"
#include "proxy/health/health.h"
#include "proxy/reconcile/loop.h"

namespace svcmap::api {

// `watching`: we are told when somebody else changes our tables.
proxy::Health HealthOf(const proxy::LoopStatus& status, bool watching,
                       std::chrono::nanoseconds sync_period);

// What --config says, or the default.
std::chrono::nanoseconds SyncPeriod(const DaemonOptions& options);

}  // namespace svcmap::api
