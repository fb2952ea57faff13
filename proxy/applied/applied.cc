#include "proxy/applied/applied.h"

#include <algorithm>
#include <numeric>

namespace svcmap::proxy {

namespace {

size_t ServicePorts(const ServiceRows& service) {
  size_t count[2] = {};
  for (const PortRows& port : service.ports) ++count[Index(port.family)];
  return std::max(count[0], count[1]);
}

}  // namespace

void Applied::CountPorts(const ServiceRows& service, int change) {
  service_ports_ += change * static_cast<int64_t>(ServicePorts(service));
  if (service.tcp_resets != TcpResets::kOff) reset_services_ += change;
  CountTimers(service, change, timer_uses_);
  for (const PortRows& port : service.ports) {
    if (!port.any || port.local.group != 0) continue;
    const size_t family = Index(port.family);
    if (port.internal_local) no_local_endpoints_.internal[family] += change;
    const auto external = [](const ReachedAt& at) {
      return at.kind == DispatchKind::kExternalLocal;
    };
    if (std::ranges::any_of(port.addresses, external)) {
      no_local_endpoints_.external[family] += change;
    }
  }
}

void Applied::Put(std::string key, ServiceRows rows) {
  const auto [service, added] = services_.try_emplace(std::move(key));
  if (!added) CountPorts(service->second, -1);
  if (rows.empty()) {
    services_.erase(service);
    return;
  }
  CountPorts(rows, 1);
  service->second = std::move(rows);
}

void Applied::Advance(const Plan& plan, bool recreated, ServiceChanges services,
                      std::optional<std::vector<Row>> node_rows, const Marker& marker) {
  if (recreated) {
    shared_.clear();
    counts_ = {};
  }
  for (auto& [key, rows] : services) Put(std::move(key), std::move(rows));
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
  if (node_rows) node_rows_ = *std::move(node_rows);
  marker_ = marker;
}

size_t Applied::RowCount() const {
  int64_t rows = 0;
  for (const auto& family : counts_) {
    rows = std::accumulate(family.begin(), family.end(), rows);
  }
  return static_cast<size_t>(rows);
}

size_t Applied::SourceRows(Family family) const {
  int64_t rows = 0;
  for (const SetIndex set : kSourceSets) rows += counts_[Index(family)][set];
  return static_cast<size_t>(rows);
}

}  // namespace svcmap::proxy
