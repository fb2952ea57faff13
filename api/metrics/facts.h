// What a scrape reads: copies of what each part says of itself, as GetStatus reads them. Making the
// pages from them is pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/metrics/observations.h"
#include "api/metrics/process_figures.h"
#include "nft/netlink/batch.h"
#include "proxy/connections/service_connections.h"
#include "proxy/conntrack/cleaner.h"
#include "proxy/health/health.h"
#include "proxy/reconcile/loop.h"
#include "proxy/saved/state_log.h"

namespace svcmap::api {

struct MetricsFacts {
  struct Controller {
    std::optional<std::chrono::system_clock::time_point> since;  // Nothing: none is connected.
  };

  proxy::LoopStatus loop;
  proxy::CleanerStatus cleaner;
  proxy::Health health;
  std::optional<proxy::StateLogStatus> saved;  // Nothing: no state is kept.
  std::optional<Controller> controller;        // Nothing: the state comes from manifests.
  bool watching = false;
  uint64_t refused_objects = 0;
  uint64_t refused_calls = 0;
  uint64_t failed_handshakes = 0;
  // Null: they are not counted. Stays whose it is.
  std::shared_ptr<const std::vector<proxy::ServiceConnections>> connections;
  ProcessFigures process;
  std::chrono::steady_clock::time_point now;
};

// What stays for the life of the process.
struct MetricsConstants {
  std::string version;
  nft::TableSpecs tables;
  size_t max_objects = 0;
  std::chrono::system_clock::time_point started;
};

// The pages /metrics and /metrics/slis.
std::string MetricsText(const MetricsFacts& facts, const MetricsConstants& constants,
                        const Observations& observations);
std::string SliText(const MetricsFacts& facts, const Observations& observations);

}  // namespace svcmap::api
