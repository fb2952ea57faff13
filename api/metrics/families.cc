#include "api/metrics/families.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace svcmap::api {

Families::Families(const Catalogue& catalogue)
    : catalogue_(catalogue), families_(catalogue.size()) {
  for (size_t i = 0; i < catalogue.size(); ++i) {
    families_[i].name = catalogue[i].name;
    families_[i].help = catalogue[i].help;
    families_[i].type = catalogue[i].type;
  }
}

size_t Families::IndexOf(std::string_view name) const {
  const auto found = std::find_if(catalogue_.begin(), catalogue_.end(),
                                  [name](const Metric& metric) { return metric.name == name; });
  assert(found != catalogue_.end());
  return static_cast<size_t>(found - catalogue_.begin());
}

void Families::Add(std::string_view name, double value, const std::vector<std::string>& labels) {
  prometheus::ClientMetric metric;
  // The serializer uses only the value that matches the type of the family.
  metric.counter.value = metric.gauge.value = value;
  Add(name, std::move(metric), labels);
}

void Families::Add(std::string_view name, prometheus::ClientMetric metric,
                   const std::vector<std::string>& labels) {
  const size_t index = IndexOf(name);
  const std::vector<std::string_view>& names = catalogue_[index].labels;
  assert(names.size() == labels.size());
  for (size_t i = 0; i < names.size(); ++i) {
    metric.label.push_back({std::string(names[i]), labels[i]});
  }
  families_[index].metric.push_back(std::move(metric));
}

std::vector<prometheus::MetricFamily> Families::Take() && {
  std::erase_if(families_, [](const auto& family) { return family.metric.empty(); });
  return std::move(families_);
}

std::string ToText(const std::vector<prometheus::MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace svcmap::api
