// What svcmap-kube says of itself over HTTP. Pure.
#pragma once

#include <array>
#include <chrono>
#include <string>

#include "api/health/answers.h"
#include "api/kube/mirror.h"
#include "api/kube/push.h"
#include "api/kube/watch/list_watch.h"
#include "api/metrics/catalogue.h"

namespace svcmap::kube {

struct BridgeFacts {
  std::array<ListWatchFacts, kResources.size()> watches;  // In the order of kResources.
  bool complete = false;                                  // The mirror is.
  Mirror::Counts mirror;
  PushFacts push;
  std::chrono::steady_clock::time_point started;
  std::chrono::steady_clock::time_point now;
};

// Every metric of svcmap-kube: the one list of their names.
const api::Catalogue& KubeMetrics();

// In Prometheus' text format.
std::string KubeMetricsText(const BridgeFacts& facts, const std::string& version);

// 200 once the mirror is complete and while the agent has it; otherwise 503, with a line for each
// thing that is missing. A resource that we do without, as it is forbidden, is only named. That the
// API server cannot be reached for a time is none: what was listed goes on.
api::Answer KubeHealthzAnswer(const BridgeFacts& facts);

}  // namespace svcmap::kube
