#include "proxy/state/standing_findings.h"

#include <functional>
#include <utility>

#include "absl/algorithm/container.h"

namespace svcmap::proxy {

void StandingFindings::Replace(const std::vector<DirtyService>& planned,
                               std::vector<PlanFinding>& findings) {
  absl::btree_map<std::string, std::vector<Finding>> before;
  const auto take = [&](const std::string& service) {
    if (auto node = by_service_.extract(service)) before.insert(std::move(node));
  };
  if (!by_service_.empty()) {
    for (const DirtyService& dirty : planned) take(dirty.key);
    for (const PlanFinding& found : findings) take(found.service);
  }
  for (PlanFinding& found : findings) {
    const auto group = before.find(found.service);
    found.known = group != before.end() && absl::c_linear_search(group->second, found.finding);
    // The findings of the node always fit.
    if (by_service_.size() >= kMaxServices && !found.service.empty() &&
        !by_service_.contains(found.service)) {
      continue;
    }
    std::vector<Finding>& of_service = by_service_[found.service];
    if (of_service.size() < kMaxFindings) of_service.push_back(found.finding);
  }
  size_t count = 0;
  for (const auto& [key, of_service] : before) count += of_service.size();
  // Unchanged findings cost nothing, however many other findings there are.
  if (absl::c_all_of(findings, std::mem_fn(&PlanFinding::known)) && findings.size() == count) {
    return;
  }
  auto list = std::make_shared<std::vector<Finding>>();
  for (const auto& [key, of_service] : by_service_) {
    list->insert(list->end(), of_service.begin(), of_service.end());
  }
  list_ = std::move(list);
}

const std::vector<Finding>& StandingFindings::Of(const std::string& service) const {
  static const std::vector<Finding> kNone;
  const auto found = by_service_.find(service);
  return found == by_service_.end() ? kNone : found->second;
}

}  // namespace svcmap::proxy
