// Collects the metrics of a page by name. Every metric must be in the catalogue.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <string_view>
#include <vector>

#include "api/metrics/catalogue.h"

namespace svcmap::api {

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
