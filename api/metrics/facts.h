// Values that a scrape reads from svcmapd's components, and pure functions that format these values
// as pages.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/localhost/status.h"
#include "api/metrics/observations.h"
#include "api/metrics/process_figures.h"
#include "api/tls/tls_files.h"
#include "nft/netlink/batch.h"
#include "proxy/connections/service_connections.h"
#include "proxy/conntrack/cleaner.h"
#include "proxy/health/health.h"
#include "proxy/reconcile/loop.h"
#include "proxy/saved/object_store.h"

namespace svcmap::api {

struct MetricsFacts {
  struct Controller {
    // Absent if no controller is connected.
    std::optional<std::chrono::system_clock::time_point> since;
  };

  proxy::LoopStatus loop;
  proxy::CleanerStatus cleaner;
  proxy::Health health;
  std::optional<proxy::ObjectStoreStatus> saved;  // Absent if no state is saved.
  std::optional<Controller> controller;           // Absent with --manifests.
  bool watching = false;
  uint64_t refused_objects = 0;
  uint64_t refused_calls = 0;
  uint64_t failed_handshakes = 0;
  uint64_t connections_open = 0;  // Number of open API connections.
  // Number of rejected connections by reason.
  std::vector<std::pair<std::string, uint64_t>> rejected_connections;
  // Connection counters, shared with the connection reader, or null if connections are not counted.
  std::shared_ptr<const std::vector<proxy::ServiceConnections>> connections;
  // Absent if nodePorts do not accept connections on loopback addresses.
  std::optional<LocalhostForwarderStatus> localhost;
  std::vector<CertificateExpiry> certificates;  // Of the TLS files.
  ProcessFigures process;
  std::chrono::steady_clock::time_point now;
};

// Values that are constant for the lifetime of the process.
struct MetricsConstants {
  std::string version;
  nft::TableSpecs tables;
  size_t max_objects = 0;
  uint64_t max_bytes = 0;
  uint64_t max_elements = 0;
  std::chrono::system_clock::time_point started;
};

// Return the pages /metrics and /metrics/slis.
std::string MetricsText(const MetricsFacts& facts, const MetricsConstants& constants,
                        const Observations& observations);
std::string SliText(const MetricsFacts& facts, const Observations& observations);

}  // namespace svcmap::api
