// Every metric that svcmapd exposes: the one list of their names. Those that begin with kubeproxy_
// are kube-proxy's (docs/specification.md, section 7), so its dashboards and alerts go on working.
// docs/metrics.md is generated from this.
#pragma once

#include <prometheus/metric_type.h>

#include <string_view>
#include <vector>

namespace svcmap::api {

struct Metric {
  std::string_view name;
  prometheus::MetricType type;
  std::vector<std::string_view> labels;
  std::string_view help;
};

using Catalogue = std::vector<Metric>;

const Catalogue& AllMetrics();  // Of /metrics, in the order of the page.
const Catalogue& SliMetrics();  // Of /metrics/slis.

}  // namespace svcmap::api
