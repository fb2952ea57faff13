#include "proxy/reconcile/standing_findings.h"

namespace svcmap::proxy {

void StandingFindings::Replace(const std::vector<DirtyService>& planned,
                               const std::vector<std::pair<uint64_t, Finding>>& findings) {
  bool changed = !findings.empty();
  if (!by_service_.empty()) {
    for (const DirtyService& dirty : planned) changed |= by_service_.erase(dirty.key) > 0;
  }
  if (!changed) return;
  for (const auto& [sequence, finding] : findings) by_service_.erase(finding.key);
  for (const auto& [sequence, finding] : findings) {
    if (by_service_.size() >= kMaxServices && !by_service_.contains(finding.key)) continue;
    std::vector<Finding>& of_service = by_service_[finding.key];
    if (of_service.size() < kMaxFindings) of_service.push_back(finding);
  }
  auto list = std::make_shared<std::vector<Finding>>();
  for (const auto& [key, of_service] : by_service_) {
    list->insert(list->end(), of_service.begin(), of_service.end());
  }
  list_ = std::move(list);
}

}  // namespace svcmap::proxy
