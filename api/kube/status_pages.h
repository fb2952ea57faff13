// Content of svcmap-kube's HTTP pages. Pure functions, except for KubePages.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "api/health/answers.h"
#include "api/kube/watch/list_watch.h"
#include "api/metrics/families.h"
#include "api/metrics/server.h"
#include "api/source/mirror.h"
#include "api/source/push.h"
#include "api/tls/tls_files.h"

namespace svcmap::kube {

using source::PushFacts;

struct BridgeFacts {
  ListWatches::Facts watches;
  std::string startup_taint_error;  // Empty without an error.
  bool complete = false;            // Mirror::complete().
  Mirror::Counts mirror;
  PushFacts push;
  std::vector<api::CertificateExpiry> certificates;  // Of all TLS files.
  std::chrono::steady_clock::time_point started;
  std::chrono::steady_clock::time_point now;
};

// Names and descriptions of all metrics of svcmap-kube.
const api::Catalogue& KubeMetrics();

// Returns all metrics in the Prometheus text format.
std::string KubeMetricsText(const BridgeFacts& facts, const std::string& version);

// Returns 200 if the mirror is complete and svcmapd is synced. Otherwise, returns 503 with one line
// for each missing part. Optional resources that cannot be listed, and a startup taint that cannot
// be removed, are mentioned, but do not cause 503. An unreachable API server does not cause 503
// either, because the listed objects stay in effect.
api::Answer KubeHealthzAnswer(const BridgeFacts& facts);

// Returns the pages by path. `facts` is called for each request.
api::Pages KubePages(std::function<BridgeFacts()> facts);

}  // namespace svcmap::kube
