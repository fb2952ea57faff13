#include "api/intake/findings_book.h"

#include <algorithm>

namespace svcmap::api {

void FindingsBook::Set(proxy::Kind kind, const std::string& key,
                       const std::vector<proxy::Finding>& findings) {
  const std::lock_guard lock(mutex_);
  for (const proxy::Finding& finding : findings) {
    if (finding.severity == proxy::Finding::Severity::kRefused) ++refused_total_;
  }
  if (findings.empty()) {
    findings_.erase({kind, key});
  } else if (findings_.size() < kMaxObjects) {
    findings_[{kind, key}] = findings;
  }
}

void FindingsBook::Add(const std::vector<proxy::Finding>& findings) {
  const std::lock_guard lock(mutex_);
  for (const proxy::Finding& finding : findings) {
    if (findings_.size() >= kMaxObjects) return;
    std::vector<proxy::Finding>& held = findings_[{finding.kind, finding.key}];
    const auto same = [&](const proxy::Finding& other) {
      return other.field == finding.field && other.value == finding.value;
    };
    if (std::none_of(held.begin(), held.end(), same)) held.push_back(finding);
  }
}

std::vector<proxy::Finding> FindingsBook::All() const {
  const std::lock_guard lock(mutex_);
  std::vector<proxy::Finding> all;
  for (const auto& [key, findings] : findings_) {
    all.insert(all.end(), findings.begin(), findings.end());
  }
  return all;
}

uint64_t FindingsBook::refused_total() const {
  const std::lock_guard lock(mutex_);
  return refused_total_;
}

}  // namespace svcmap::api
