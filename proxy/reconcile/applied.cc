#include "proxy/reconcile/applied.h"

#include <algorithm>

namespace svcmap::proxy {

namespace {

size_t ServicePorts(const ServiceRows* service) {
  if (service == nullptr) return 0;
  size_t count[2] = {};
  for (const PortRows& port : service->ports) ++count[Index(port.family)];
  return std::max(count[0], count[1]);
}

}  // namespace

void Applied::Advance(const Plan& plan, bool recreated, ServiceChanges services,
                      std::vector<Row> node_rows, const Marker& marker) {
  if (recreated) {
    shared_.clear();
    counts_ = {};
  }
  for (auto& [key, rows] : services) {
    service_ports_ += ServicePorts(&rows);
    service_ports_ -= ServicePorts(Find(key));
    if (rows.empty()) {
      services_.erase(key);
    } else {
      services_.insert_or_assign(std::move(key), std::move(rows));
    }
  }
  for (const auto& [key, change] : plan.shared_changes()) {
    if (change == 0) continue;
    const auto entry = shared_.try_emplace(key, 0).first;
    entry->second += change;
    if (entry->second == 0) shared_.erase(entry);
  }
  for (size_t family = 0; family < counts_.size(); ++family) {
    for (size_t set = 0; set < counts_[family].size(); ++set) {
      counts_[family][set] += plan.counts()[family][set];
    }
  }
  node_rows_ = std::move(node_rows);
  marker_ = marker;
}

}  // namespace svcmap::proxy
