// Metrics of one page, gathered by name; what is not in the catalogue cannot be exposed. Pure.
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

  // One counter or gauge; `labels` are the values of the catalogue's labels, in their order.
  void Add(std::string_view name, double value, const std::vector<std::string>& labels = {});
  // One of any type; `metric` has no labels yet.
  void Add(std::string_view name, prometheus::ClientMetric metric,
           const std::vector<std::string>& labels = {});

  // In the order of the catalogue, without those of which there is nothing.
  std::vector<prometheus::MetricFamily> Take() &&;

 private:
  size_t IndexOf(std::string_view name) const;

  const Catalogue& catalogue_;
  std::vector<prometheus::MetricFamily> families_;
};

// In Prometheus' text format 0.0.4.
std::string ToText(const std::vector<prometheus::MetricFamily>& families);

}  // namespace svcmap::api
