// Content of svcmap-etcd's HTTP pages. Pure functions, except for Pages.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/etcd/client.h"
#include "api/health/answers.h"
#include "api/metrics/families.h"
#include "api/source/mirror.h"
#include "api/source/push.h"
#include "api/tls/tls_files.h"

namespace svcmap::etcd {

struct Facts {
  FollowerFacts etcd;
  Mirror::Counts mirror;
  source::PushFacts push;
  uint64_t status_failures = 0;                      // See StatusReporter::failures.
  std::vector<api::CertificateExpiry> certificates;  // Of all TLS files.
  std::chrono::steady_clock::time_point started;
  std::chrono::steady_clock::time_point now;
};

// Names and descriptions of all metrics of svcmap-etcd.
const api::Catalogue& Metrics();

// Returns all metrics in the Prometheus text format.
std::string MetricsText(const Facts& facts, const std::string& version);

// Returns 200 if all objects were listed and svcmapd is synced and does not hold removals.
// Otherwise, returns 503 with one line for each problem. Unreachable etcd members do not cause 503
// after the first list, because the listed objects stay in effect.
api::Answer HealthzAnswer(const Facts& facts);

// Returns the pages by path. `facts` is called for each request.
std::map<std::string, std::function<api::Answer()>> Pages(const std::function<Facts()>& facts);

}  // namespace svcmap::etcd
