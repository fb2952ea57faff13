// HTTP server for metrics and small status pages, on port 10249 as in kube-proxy (S-267).
//
// Runs a libevent event loop on a separate thread, so a scrape delays neither health checks nor the
// reconcile loop. Profiling (/debug/pprof) is not supported.
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
  // If true, Start returns an error if `bind_address` cannot be bound. If false, the server retries
  // failed binds (S-268).
  bool bind_hard_fail = false;
  std::chrono::milliseconds retry{5000};
  std::function<MetricsFacts()> facts;  // Called for each scrape, on the server's thread.
  MetricsConstants constants;
  // Additional pages by path. The server's thread calls the function of a page for each request.
  std::map<std::string, std::function<Answer()>> pages;

  size_t max_connections = 64;
  std::chrono::milliseconds patience{30000};  // Time limit for a request.
};

class MetricsServer {
 public:
  // `observations` must outlive the server.
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
Answer MetricsPage(std::string body);  // `body` is in Prometheus' text format.

}  // namespace svcmap::api
