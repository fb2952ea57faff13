#include "proxy/state/standing_findings.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace svcmap::proxy {

void StandingFindings::Replace(const std::vector<DirtyService>& planned,
                               std::vector<PlanFinding>& findings) {
  Groups before;
  const auto take = [&](const std::string& service) {
    if (auto node = by_service_.extract(service)) before.insert(std::move(node));
  };
  if (!by_service_.empty()) {
    for (const DirtyService& dirty : planned) take(dirty.key);
    for (const PlanFinding& found : findings) take(found.service);
  }
  if (!before.empty() || !findings.empty()) Add(before, findings);
}

void StandingFindings::Add(const Groups& before, std::vector<PlanFinding>& findings) {
  for (PlanFinding& found : findings) {
    const auto group = before.find(found.service);
    found.known = group != before.end() &&
                  std::ranges::find(group->second, found.finding) != group->second.end();
    // The findings of the node always fit.
    if (by_service_.size() >= kMaxServices && !found.service.empty() &&
        !by_service_.contains(found.service)) {
      continue;
    }
    std::vector<Finding>& of_service = by_service_[found.service];
    if (of_service.size() < kMaxFindings) of_service.push_back(found.finding);
  }
  const auto count = [](const Groups& groups) {
    return std::accumulate(groups.begin(), groups.end(), size_t{0},
                           [](size_t sum, const auto& g) { return sum + g.second.size(); });
  };
  // Unchanged findings cost nothing, however many other findings there are.
  if (std::ranges::all_of(findings, &PlanFinding::known) && findings.size() == count(before))
    return;
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
