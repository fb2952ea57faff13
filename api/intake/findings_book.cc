#include "api/intake/findings_book.h"

#include <algorithm>

namespace svcmap::api {

void FindingsBook::Set(proxy::Kind kind, const std::string& key,
                       const std::vector<proxy::Finding>& findings) {
  const std::lock_guard lock(mutex_);
  if (findings.empty()) {
    reported_.erase({kind, key});
  } else if (HasRoomFor({kind, key})) {
    reported_[{kind, key}] = {findings, snapshot_};
  }
}

bool FindingsBook::HasRoomFor(const Key& key) const {
  return reported_.size() < kMaxObjects || reported_.contains(key);
}

void FindingsBook::BeginSnapshot() {
  const std::lock_guard lock(mutex_);
  ++snapshot_;
}

void FindingsBook::EndSnapshot() {
  const std::lock_guard lock(mutex_);
  std::erase_if(reported_, [this](const auto& entry) { return entry.second.snapshot < snapshot_; });
}

void FindingsBook::Add(const std::vector<proxy::Finding>& findings) {
  const std::lock_guard lock(mutex_);
  for (const proxy::Finding& finding : findings) {
    if (!HasRoomFor({finding.kind, finding.key})) continue;
    Reported& reported = reported_[{finding.kind, finding.key}];
    reported.snapshot = snapshot_;
    const auto same = [&](const proxy::Finding& other) {
      return other.field == finding.field && other.value == finding.value;
    };
    if (reported.findings.size() < kMaxFindings &&
        std::none_of(reported.findings.begin(), reported.findings.end(), same)) {
      reported.findings.push_back(finding);
    }
  }
}

std::vector<proxy::Finding> FindingsBook::All() const {
  const std::lock_guard lock(mutex_);
  std::vector<proxy::Finding> all;
  for (const auto& [key, reported] : reported_) {
    all.insert(all.end(), reported.findings.begin(), reported.findings.end());
  }
  return all;
}

}  // namespace svcmap::api
