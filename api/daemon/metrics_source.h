// What Prometheus is told of a running agent.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "api/daemon/options.h"
#include "api/metrics/server.h"
#include "nft/model/table.h"

namespace svcmap::nft {
class WatchedKernel;
}
namespace svcmap::proxy {
class Cleaner;
class ConnectionReader;
class Loop;
class StateLog;
}  // namespace svcmap::proxy

namespace svcmap::api {

class ControlService;
class Intake;

// What a scrape is told, on the metrics server's thread. Nobody waits for anybody, but for
// connections, and for those not long.
struct MetricsSources {
  const DaemonOptions& options;
  proxy::Loop& loop;
  const proxy::Cleaner& cleaner;
  const nft::WatchedKernel& kernel;
  const proxy::StateLog* log;  // Null: no state is kept.
  const Intake& intake;
  ControlService& service;
  proxy::ConnectionReader* connections;  // Null: they are not counted.

  MetricsFacts Read() const;
};

// Null if no metrics are to be served.
absl::StatusOr<std::unique_ptr<MetricsServer>> ServeMetrics(const MetricsSources& sources,
                                                            const nft::TableSpecs& tables,
                                                            const Observations& observations);

}  // namespace svcmap::api
