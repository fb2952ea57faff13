// All metrics that svcmapd exposes. Metrics that begin with kubeproxy_ have the names, labels and
// buckets of kube-proxy (S-269..S-285), so that dashboards and alerts for kube-proxy also work with
// svcmapd. The tables in docs/metrics.md are generated from this catalogue.
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

const Catalogue& AllMetrics();  // Returns the metrics of /metrics in the order of the page.
const Catalogue& SliMetrics();  // Returns the metrics of /metrics/slis.

}  // namespace svcmap::api
