// Values that a scrape reads from svcmapd's components, and pure functions that format these values
// as pages.
#pragma once

#include <prometheus/histogram.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/localhost/forwarder.h"
#include "api/tls/tls_files.h"
#include "nft/netlink/batch.h"
#include "proxy/connections/service_connections.h"
#include "proxy/conntrack/cleaner.h"
#include "proxy/health/health.h"
#include "proxy/reconcile/loop.h"
#include "proxy/saved/object_store.h"

namespace svcmap::api {

// Resource usage of this process. Values that cannot be read are 0.
struct ProcessFigures {
  double cpu_seconds = 0;
  uint64_t resident_bytes = 0;
  uint64_t virtual_bytes = 0;
  uint64_t max_virtual_bytes = 0;  // RLIM_INFINITY (all bits set) if unlimited.
  uint64_t open_fds = 0;
  uint64_t max_fds = 0;
  double start_time = 0;  // Unix time at which the process started.
};

ProcessFigures ReadProcessFigures();

// Histograms and counters that are updated when an event occurs: durations of syncs and cleanups,
// and responses of health checks. Updates allocate no memory. A scrape holds the lock of a
// histogram only while it copies the values.
struct Observations {
  Observations();

  // Called on the thread of the reconcile loop.
  void Synced(const proxy::SyncResult& result);
  void Cleaned(const proxy::Cleanup& cleanup);       // Called on the cleaner's thread.
  void Answered(const std::string& path, int code);  // Called on the health server's thread.

  // Number of responses of /healthz or /livez.
  struct Answers {
    std::atomic<uint64_t> ok = 0, unavailable = 0;
  };

  // The members below may be read on any thread.
  prometheus::Histogram syncs, full_syncs, partial_syncs, commits, cleanups;
  prometheus::Histogram programming[2];  // Indexed by Index(Family).
  prometheus::Gauge last_sync;           // Unix time of the last successful sync, or 0.
  Answers healthz, livez;
};

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
