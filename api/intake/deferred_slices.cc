#include "api/intake/deferred_slices.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace svcmap::api {
namespace {

using proxy::DeferredChange;
using proxy::Kind;

// Returns the earliest trigger time of the deltas that have one.
std::optional<std::chrono::system_clock::time_point> TriggerTime(
    const std::vector<std::shared_ptr<const v1::EndpointDelta>>& deltas) {
  std::optional<absl::Time> first;
  for (const auto& delta : deltas) {
    if (!delta->has_last_change_trigger_time()) continue;
    const google::protobuf::Timestamp& reported = delta->last_change_trigger_time();
    const absl::Time time =
        absl::FromUnixSeconds(reported.seconds()) + absl::Nanoseconds(reported.nanos());
    first = first ? std::min(*first, time) : time;
  }
  if (!first) return std::nullopt;
  return absl::ToChronoTime(*first);
}

DeferredChange::Result Make(const std::string& key, const std::string* held,
                            const std::vector<std::shared_ptr<const v1::EndpointDelta>>& deltas,
                            const ConvertContext& context) {
  Converted<proxy::EndpointSlice> slice = ConvertDeltas(key, held, deltas, context);
  DeferredChange::Result made;
  made.findings = std::move(slice.findings);
  if (slice.value) {
    made.change = {.kind = Kind::kEndpointSlice,
                   .key = key,
                   .slice = std::move(slice.value),
                   .triggered = TriggerTime(deltas)};
  }
  return made;
}

}  // namespace

void DeferredSlices::Add(const std::string& key, std::shared_ptr<const v1::EndpointDelta> delta) {
  const auto [place, added] = places_.try_emplace(key, slices_.size());
  if (added) slices_.emplace_back(key, Deltas());
  slices_[place->second].second.push_back(std::move(delta));
}

void DeferredSlices::Forget(const proxy::Change& change) {
  if (change.kind != Kind::kEndpointSlice || places_.empty()) return;
  const auto found = places_.find(change.key);
  if (found == places_.end()) return;
  slices_[found->second].second.clear();
  places_.erase(found);
}

std::vector<DeferredChange> DeferredSlices::Take(const ConvertContext& context) {
  std::vector<DeferredChange> late;
  for (auto& [key, deltas] : std::exchange(slices_, {})) {
    if (deltas.empty()) continue;
    late.push_back(
        {.kind = Kind::kEndpointSlice,
         .key = key,
         .make = [key = key, deltas = std::move(deltas), context](const proxy::Store& store) {
           return Make(key, store.FindMessage(Kind::kEndpointSlice, key), deltas, context);
         }});
  }
  places_.clear();
  return late;
}

}  // namespace svcmap::api
