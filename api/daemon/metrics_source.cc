#include "api/daemon/metrics_source.h"

#include "api/config/configz.h"
#include "api/daemon/agent_health.h"
#include "api/grpc/control_service.h"
#include "api/intake/intake.h"
#include "nft/netlink/watched_kernel.h"
#include "proxy/connections/service_connections.h"
#include "proxy/conntrack/cleaner.h"
#include "proxy/reconcile/loop.h"

namespace svcmap::api {

MetricsFacts MetricsSources::Read() const {
  MetricsFacts facts;
  facts.loop = loop.status();
  facts.now = std::chrono::steady_clock::now();  // Read after loop.status(), so no age is negative.
  facts.cleaner = cleaner.status();
  facts.watching = kernel.WatcherAlive();
  facts.health = HealthOf(facts.loop, facts.watching, options);
  if (disk != nullptr) facts.saved = disk->status();
  if (options.manifests.empty()) {
    facts.controller.emplace();
    if (const auto controller = service.controller()) facts.controller->since = controller->since;
  }
  facts.refused_objects = CountRejected(intake.Findings());
  facts.refused_calls = service.rejected_calls().count();
  const Rejections& rejections = service.rejections();
  facts.failed_handshakes = rejections.count(Rejection::kHandshakeFailed);
  facts.connections_open = rejections.connections();
  for (int i = 0; i < kRejections; ++i) {
    const auto reason = static_cast<Rejection>(i);
    facts.rejected_connections.emplace_back(NameOf(reason), rejections.count(reason));
  }
  const TlsFiles& tls = options.listeners.tls;
  facts.certificates = ReadExpiries({{"tls-cert", tls.certificate}, {"tls-client-ca", tls.ca}});
  if (connections != nullptr) facts.connections = connections->Read();
  if (localhost != nullptr) facts.localhost = localhost->status();
  facts.process = ReadProcessFigures();
  return facts;
}

absl::StatusOr<std::unique_ptr<PageServer>> ServeMetrics(const MetricsSources& sources,
                                                         const nft::TableSpecs& tables,
                                                         const Observations& observations) {
  const DaemonOptions& options = sources.options;
  if (!options.metrics_bind_address) return std::unique_ptr<PageServer>();
  PageServerOptions server;
  server.bind_address = *options.metrics_bind_address;
  server.bind_hard_fail = options.bind_address_hard_fail;
  if (options.config) {
    server.pages["/configz"] = [&config = options.config->config] {
      return JsonPage(ConfigzText(config));
    };
  }
  const proxy::StateLimits& limits = options.state_limits;
  return StartMetricsServer(
      std::move(server), [sources] { return sources.Read(); },
      {SVCMAP_VERSION, tables, limits.objects, limits.bytes, limits.elements,
       std::chrono::system_clock::now()},
      observations);
}

}  // namespace svcmap::api
