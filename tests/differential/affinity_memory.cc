#include "tests/differential/affinity_memory.h"

namespace svcmap::testing {
namespace {

constexpr char kByClient[] = "ClientIP";

std::string TextOf(const Choice& choice) {
  const bool v6 = choice.ip.find(':') != std::string::npos;
  return (v6 ? "[" + choice.ip + "]" : choice.ip) + ":" + std::to_string(choice.port);
}

// Returns the endpoint in the format of ReferenceModel::AffineEndpoints. All ports of a port range
// share a record.
std::string RecordOf(const Prediction& prediction, Choice choice) {
  if (prediction.range) choice.port = 0;
  return TextOf(choice);
}

}  // namespace

std::vector<Choice> AffinityMemory::Allowed(const std::string& client,
                                            const Prediction& prediction) const {
  if (!prediction.affinity && prediction.pick != kByClient) return prediction.choices;
  const Records& records = prediction.affinity ? records_ : picks_;
  const auto found =
      records.find({client, prediction.affinity ? prediction.service_port : prediction.table});
  if (found == records.end()) return prediction.choices;
  for (const Choice& choice : prediction.choices) {
    const std::string text = prediction.affinity ? RecordOf(prediction, choice) : TextOf(choice);
    if (text == found->second) return {choice};
  }
  return prediction.choices;
}

void AffinityMemory::Remember(const std::string& client, const Prediction& prediction,
                              const Choice& choice) {
  if (prediction.affinity) {
    records_[{client, prediction.service_port}] = RecordOf(prediction, choice);
  }
  if (prediction.pick == kByClient) picks_[{client, prediction.table}] = TextOf(choice);
}

void AffinityMemory::Forget(const std::string& client, const Prediction& prediction) {
  records_.erase({client, prediction.service_port});
}

void AffinityMemory::Keep(const std::map<std::string, std::set<std::string>>& reachable) {
  for (auto record = records_.begin(); record != records_.end();) {
    const auto found = reachable.find(record->first.second);
    const bool stays = found != reachable.end() && found->second.count(record->second) > 0;
    record = stays ? std::next(record) : records_.erase(record);
  }
}

}  // namespace svcmap::testing
