// Port 10249, as kube-proxy has it: metrics, and small pages that say how the agent is set up
// (docs/specification.md, 6.3).
//
// A thread and an event loop of its own, with HTTP by libevent as for health checks: who scrapes
// holds up nobody who asks about health, and neither the reconcile loop. There is no profiling:
// /debug/pprof is not found.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/health/served_address.h"
#include "api/metrics/facts.h"

namespace svcmap::api {

struct MetricsServerOptions {
  BindAddress bind_address;
  // Start fails if it cannot be had; otherwise it is tried again (S-268).
  bool bind_hard_fail = false;
  std::chrono::milliseconds retry{5000};
  std::function<MetricsFacts()> facts;  // For each scrape, on the server's thread.
  MetricsConstants constants;
  // Other pages, by path; for each answer, on the server's thread.
  std::map<std::string, std::function<Answer()>> pages;

  size_t max_connections = 64;
  std::chrono::milliseconds patience{30000};  // For a whole request.
};

class MetricsServer {
 public:
  // `observations` outlive it.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(MetricsServerOptions options,
                                                              const Observations& observations);
  ~MetricsServer();

 private:
  class Impl;
  explicit MetricsServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

Answer TextPage(std::string body);
Answer JsonPage(std::string body);
Answer MetricsPage(std::string body);  // In Prometheus' text format.

}  // namespace svcmap::api
