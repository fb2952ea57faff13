// All metrics that svcmapd exposes. Metrics that begin with kubeproxy_ have the names, labels and
// buckets of kube-proxy (S-269..S-285), so that dashboards and alerts for kube-proxy also work with
// svcmapd. The tables in docs/metrics.md are generated from this catalogue.
#pragma once

#include <prometheus/metric_type.h>

#include <string_view>
#include <utility>
#include <vector>

namespace svcmap::api {

struct Metric {
  std::string_view name;
  prometheus::MetricType type;
  std::vector<std::string_view> labels;
  std::string_view help;
};

inline Metric Counter(std::string_view name, std::string_view help,
                      std::vector<std::string_view> labels = {}) {
  return {name, prometheus::MetricType::Counter, std::move(labels), help};
}
inline Metric Gauge(std::string_view name, std::string_view help,
                    std::vector<std::string_view> labels = {}) {
  return {name, prometheus::MetricType::Gauge, std::move(labels), help};
}
inline Metric Histogram(std::string_view name, std::string_view help,
                        std::vector<std::string_view> labels = {}) {
  return {name, prometheus::MetricType::Histogram, std::move(labels), help};
}
inline Metric Summary(std::string_view name, std::string_view help,
                      std::vector<std::string_view> labels = {}) {
  return {name, prometheus::MetricType::Summary, std::move(labels), help};
}

using Catalogue = std::vector<Metric>;

const Catalogue& AllMetrics();  // Returns the metrics of /metrics in the order of the page.
const Catalogue& SliMetrics();  // Returns the metrics of /metrics/slis.

}  // namespace svcmap::api
