// HTTP servers for metrics and small status pages. A server runs a libevent event loop on its own
// thread, so a scrape delays neither health checks nor the reconcile loop. Profiling (/debug/pprof)
// is not supported.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/health/connections.h"
#include "api/health/event.h"
#include "api/health/http_point.h"
#include "api/metrics/facts.h"

namespace svcmap::api {

// Pages by path. The server's thread calls the function of a page for each request.
using Pages = std::map<std::string, std::function<Answer()>>;

struct PageServerOptions {
  BindAddress bind_address;
  // True if Start returns an error when `bind_address` cannot be bound. If false, the server
  // retries failed binds (S-268).
  bool bind_hard_fail = false;
  std::string what;  // Paths for log messages: "/healthz and /livez".
  Pages pages;
  std::chrono::milliseconds patience{30000};  // Time limit for a request.
};

class PageServer {
 public:
  static absl::StatusOr<std::unique_ptr<PageServer>> Start(PageServerOptions options);
  ~PageServer() { thread_.Stop(); }

 private:
  explicit PageServer(PageServerOptions options);

  const PageServerOptions options_;
  EventThread thread_;
  // Used only on the server's thread after Start().
  Connections connections_;
  ServedAddress address_;
};

// Starts svcmapd's server for metrics, on port 10249 as in kube-proxy (S-267). Adds pages to
// `options`. `facts` is called for each rendering of /metrics and /metrics/slis, on the server's
// thread. `observations` must outlive the server.
absl::StatusOr<std::unique_ptr<PageServer>> StartMetricsServer(PageServerOptions options,
                                                               std::function<MetricsFacts()> facts,
                                                               MetricsConstants constants,
                                                               const Observations& observations);

Answer TextPage(std::string body, int code = 200);
Answer JsonPage(std::string body);

// Returns the function of a page in Prometheus' text format. PageCache limits the number of calls
// of `render`.
std::function<Answer()> MetricsPage(std::function<std::string()> render);

}  // namespace svcmap::api
