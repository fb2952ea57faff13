#include "tests/bench/commands/merge.h"

#include <map>
#include <string>

namespace svcmap::bench {
namespace {

// Returns a key that identifies the object in the message.
std::string ObjectOf(const v1::Change& message) {
  const auto name = [](v1::Kind kind, const std::string& name_space, const std::string& name) {
    return std::to_string(kind) + " " + name_space + "/" + name;
  };
  if (message.has_service()) {
    const v1::ObjectMeta& meta = message.service().metadata();
    return name(v1::KIND_SERVICE, meta.namespace_(), meta.name());
  }
  if (message.has_endpoint_slice()) {
    const v1::ObjectMeta& meta = message.endpoint_slice().metadata();
    return name(v1::KIND_ENDPOINT_SLICE, meta.namespace_(), meta.name());
  }
  return name(message.remove().kind(), message.remove().namespace_(), message.remove().name());
}

void Take(std::vector<v1::Change>& messages, std::vector<v1::Change> more) {
  for (v1::Change& message : more) {
    const std::string object = ObjectOf(message);
    std::erase_if(messages, [&](const v1::Change& old) { return ObjectOf(old) == object; });
    messages.push_back(std::move(message));
  }
}

}  // namespace

std::vector<ClusterChange> MergeChanges(std::vector<ClusterChange> changes) {
  std::vector<ClusterChange> merged;
  std::map<std::string, size_t> places;
  for (ClusterChange& change : changes) {
    const std::string name = (change.after ? change.after : change.before)->Text();
    const auto [place, fresh] = places.try_emplace(name, merged.size());
    if (fresh) {
      merged.push_back(std::move(change));
      continue;
    }
    ClusterChange& sum = merged[place->second];
    sum.after = std::move(change.after);
    Take(sum.messages, std::move(change.messages));
  }
  std::erase_if(merged, [](const ClusterChange& sum) { return !sum.before && !sum.after; });
  return merged;
}

}  // namespace svcmap::bench
