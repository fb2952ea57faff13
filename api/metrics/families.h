// Metrics and their catalogue.
#pragma once

#include <prometheus/metric_family.h>
#include <prometheus/metric_type.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace svcmap::api {

struct Metric {
  std::string name;
  prometheus::MetricType type;
  std::vector<std::string_view> labels;
  std::string_view help;
};

inline Metric Counter(std::string name, std::string_view help,
                      std::vector<std::string_view> labels = {}) {
  return {std::move(name), prometheus::MetricType::Counter, std::move(labels), help};
}
inline Metric Gauge(std::string name, std::string_view help,
                    std::vector<std::string_view> labels = {}) {
  return {std::move(name), prometheus::MetricType::Gauge, std::move(labels), help};
}
inline Metric Histogram(std::string name, std::string_view help,
                        std::vector<std::string_view> labels = {}) {
  return {std::move(name), prometheus::MetricType::Histogram, std::move(labels), help};
}
inline Metric Summary(std::string name, std::string_view help,
                      std::vector<std::string_view> labels = {}) {
  return {std::move(name), prometheus::MetricType::Summary, std::move(labels), help};
}

using Catalogue = std::vector<Metric>;

// All metrics that svcmapd exposes. Metrics that begin with kubeproxy_ have the names, labels and
// buckets of kube-proxy (S-269..S-285), so that dashboards and alerts for kube-proxy also work with
// svcmapd. The tables in docs/metrics.md are generated from this catalogue.
const Catalogue& AllMetrics();  // Returns the metrics of /metrics in the order of the page.
const Catalogue& SliMetrics();  // Returns the metrics of /metrics/slis.

// Converts a time to Prometheus' format.
inline double UnixTime(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// Collects the metrics of a page by name. Every metric must be in the catalogue.
class Families {
 public:
  explicit Families(const Catalogue& catalogue);

  // Adds a counter or gauge. `labels` contains the label values in the order of the labels in the
  // catalogue.
  void Add(std::string_view name, double value, const std::vector<std::string>& labels = {});
  // Adds a metric of any type. `metric` must not contain labels.
  void Add(std::string_view name, prometheus::ClientMetric metric,
           const std::vector<std::string>& labels = {});

  // Returns the families in the order of the catalogue, and omits families without metrics.
  std::vector<prometheus::MetricFamily> Take() &&;

 private:
  size_t IndexOf(std::string_view name) const;

  const Catalogue& catalogue_;
  std::vector<prometheus::MetricFamily> families_;
};

// Formats the families in Prometheus' text format 0.0.4.
std::string ToText(const std::vector<prometheus::MetricFamily>& families);

}  // namespace svcmap::api
