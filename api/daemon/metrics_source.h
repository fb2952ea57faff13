// Collects the values of svcmapd's metrics and starts the metrics server.
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
class ObjectStore;
}  // namespace svcmap::proxy

namespace svcmap::api {

class ControlService;
class Intake;
class LocalhostForwarder;

// Sources of all metrics. Read runs on the metrics server's thread for each scrape. Only reading
// the connection counters can block, for a bounded time.
struct MetricsSources {
  const DaemonOptions& options;
  proxy::Loop& loop;
  const proxy::Cleaner& cleaner;
  const nft::WatchedKernel& kernel;
  const proxy::ObjectStore* disk;  // Null if no state is saved.
  const Intake& intake;
  ControlService& service;
  // Connection counters, or null if connections are not counted.
  proxy::ConnectionReader* connections;
  // Forwarder for nodePorts on loopback addresses, or null if disabled.
  const LocalhostForwarder* localhost;

  MetricsFacts Read() const;
};

// Returns null if no metrics address is configured.
absl::StatusOr<std::unique_ptr<PageServer>> ServeMetrics(const MetricsSources& sources,
                                                         const nft::TableSpecs& tables,
                                                         const Observations& observations);

}  // namespace svcmap::api
