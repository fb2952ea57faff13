#include "tests/loss/endpoint_judge.h"

#include "absl/strings/str_cat.h"

namespace svcmap::testing {

std::set<std::string> EndpointJudge::KeysOf(const CountedService& service) {
  std::set<std::string> keys;
  if (!service.permitted) return keys;
  for (const int endpoint : service.endpoints) {
    keys.insert(absl::StrCat(service.source_port(), " . ", CountedEndpoint(endpoint), " . ",
                             service.target_port()));
  }
  return keys;
}

void EndpointJudge::Judge(const DatagramCounts& left) {
  for (const auto& [key, count] : left) {
    int64_t& judged = judged_[key];
    if (count > judged && !permitted_.contains(key)) misdirected_[key] += count - judged;
    judged = count;
  }
  permitted_.clear();
  for (const auto& [number, keys] : current_) permitted_.insert(keys.begin(), keys.end());
}

void EndpointJudge::Change(const CountedService& changed) {
  current_[changed.number] = KeysOf(changed);
  const std::set<std::string>& keys = current_[changed.number];
  permitted_.insert(keys.begin(), keys.end());
}

}  // namespace svcmap::testing
