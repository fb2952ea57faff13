#include "api/source/findings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/convert/kinds.h"

namespace svcmap::source {
namespace {

std::string FullName(const std::string& name_space, const std::string& name) {
  return name_space.empty() ? name : name_space + "/" + name;
}

}  // namespace

Findings::Key Findings::KeyOf(const v1::Change& change) {
  if (const api::KindInfo* kind = api::FindKindOfField(change.change_case())) {
    const v1::ObjectMeta& metadata = *api::FindMetadata(change);
    return {kind->proto, metadata.namespace_(), metadata.name()};
  }
  return {change.remove().kind(), change.remove().namespace_(), change.remove().name()};
}

std::vector<Finding> Findings::Take(const v1::Ack& ack, const std::vector<std::string>& changes) {
  std::map<Key, Reported> now;
  for (const v1::ObjectResult& result : ack.results()) {
    Reported& reported = now[{result.kind(), result.namespace_(), result.name()}];
    if (reported.texts.size() < kMaxTexts) reported.texts.push_back(result.message());
    reported.rejected = reported.rejected || result.severity() == v1::REFUSED;
  }
  if (!reported_.empty()) {
    for (const std::string& bytes : changes) {
      v1::Change change;
      if (!change.ParseFromString(bytes)) continue;
      const Key key = KeyOf(change);
      if (!now.contains(key)) reported_.erase(key);
    }
  }
  return Keep(std::move(now));
}

std::vector<Finding> Findings::LeaveOut(const std::string& change, size_t bytes, size_t max_bytes) {
  v1::Change parsed;
  parsed.ParseFromString(change);
  const Key key = KeyOf(parsed);
  const auto& [proto_kind, name_space, name] = key;
  const api::KindInfo* kind = api::FindKind(proto_kind);
  Reported reported;
  reported.rejected = true;
  reported.texts.push_back(absl::StrCat(kind == nullptr ? "object" : std::string(kind->name), " ",
                                        FullName(name_space, name), " not sent: Too long: ", bytes,
                                        " bytes: must have at most ", max_bytes,
                                        " bytes (--max-batch-bytes of svcmapd)"));
  return Keep({{key, std::move(reported)}});
}

std::vector<Finding> Findings::Keep(std::map<Key, Reported> reported) {
  std::vector<Finding> fresh;
  for (auto& [key, now] : reported) {
    const auto before = reported_.find(key);
    if (before == reported_.end() && reported_.size() >= kMaxObjects) {
      dropped_rejection_ |= now.rejected;
      if (!std::exchange(dropped_, true)) {
        fresh.push_back(
            {.text = absl::StrCat("more than ", kMaxObjects,
                                  " objects have findings; further objects are not logged")});
      }
      continue;
    }
    for (const std::string& text : now.texts) {
      const bool known =
          before != reported_.end() && std::ranges::count(before->second.texts, text) > 0;
      if (known) continue;
      const auto& [kind, name_space, name] = key;
      fresh.push_back({kind, name_space, name, now.rejected, text});
    }
    now.snapshot = snapshot_;
    reported_[key] = std::move(now);
  }
  return fresh;
}

void Findings::BeginSnapshot() {
  ++snapshot_;
  dropped_ = dropped_rejection_ = false;
}

void Findings::EndSnapshot() {
  std::erase_if(reported_, [this](const auto& item) { return item.second.snapshot != snapshot_; });
}

size_t Findings::rejected() const {
  return static_cast<size_t>(std::count_if(reported_.begin(), reported_.end(),
                                           [](const auto& item) { return item.second.rejected; }));
}

}  // namespace svcmap::source
