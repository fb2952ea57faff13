#include "api/intake/findings_book.h"

#include <algorithm>

namespace svcmap::api {

void FindingsBook::Set(proxy::Kind kind, const std::string& key,
                       const std::vector<proxy::Finding>& findings) {
  const std::lock_guard lock(mutex_);
  if (findings.empty()) {
    said_.erase({kind, key});
  } else if (said_.size() < kMaxObjects) {
    said_[{kind, key}] = {findings, snapshot_};
  }
}

void FindingsBook::BeginSnapshot() {
  const std::lock_guard lock(mutex_);
  ++snapshot_;
}

void FindingsBook::EndSnapshot() {
  const std::lock_guard lock(mutex_);
  std::erase_if(said_, [this](const auto& entry) { return entry.second.snapshot < snapshot_; });
}

void FindingsBook::Add(const std::vector<proxy::Finding>& findings) {
  const std::lock_guard lock(mutex_);
  for (const proxy::Finding& finding : findings) {
    if (said_.size() >= kMaxObjects) return;
    Said& said = said_[{finding.kind, finding.key}];
    said.snapshot = snapshot_;
    const auto same = [&](const proxy::Finding& other) {
      return other.field == finding.field && other.value == finding.value;
    };
    if (said.findings.size() < kMaxFindings &&
        std::none_of(said.findings.begin(), said.findings.end(), same)) {
      said.findings.push_back(finding);
    }
  }
}

std::vector<proxy::Finding> FindingsBook::All() const {
  const std::lock_guard lock(mutex_);
  std::vector<proxy::Finding> all;
  for (const auto& [key, said] : said_) {
    all.insert(all.end(), said.findings.begin(), said.findings.end());
  }
  return all;
}

uint64_t FindingsBook::refused() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint64_t>(std::count_if(said_.begin(), said_.end(), [](const auto& entry) {
    const std::vector<proxy::Finding>& findings = entry.second.findings;
    return std::any_of(findings.begin(), findings.end(),
                       [](const proxy::Finding& finding) { return finding.refused(); });
  }));
}

}  // namespace svcmap::api
