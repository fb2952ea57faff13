#include "api/intake/deferred_slices.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace svcmap::api {
using proxy::DeferredChange;
using proxy::Kind;

namespace {

// Replaces `first` by the trigger time of the delta if that is earlier.
void AddTriggerTime(const v1::EndpointDelta& delta, std::optional<absl::Time>& first) {
  if (!delta.has_last_change_trigger_time()) return;
  const google::protobuf::Timestamp& reported = delta.last_change_trigger_time();
  const absl::Time time =
      absl::FromUnixSeconds(reported.seconds()) + absl::Nanoseconds(reported.nanos());
  first = first ? std::min(*first, time) : time;
}

}  // namespace

DeferredChange::Result DeferredSlices::Make(const std::string& key, const std::string* held,
                                            const Steps& steps, const ConvertContext& context) {
  DeferredChange::Result made;
  std::shared_ptr<const proxy::EndpointSlice> slice;  // The result of the steps so far, or null.
  std::optional<absl::Time> triggered;
  for (const Step& step : steps) {
    if (!step.deltas.empty()) {
      Converted<proxy::EndpointSlice> changed = ConvertDeltas(key, held, step.deltas, context);
      std::move(changed.findings.begin(), changed.findings.end(),
                std::back_inserter(made.findings));
      if (changed.value) slice = std::move(changed.value);
      for (const auto& delta : step.deltas) AddTriggerTime(*delta, triggered);
    }
    if (slice) held = &slice->message;
    if (step.rejected.empty() || held == nullptr) continue;
    auto kept = ConvertDepartures(*held, step.rejected, context);
    if (!kept) continue;
    slice = std::move(kept);
    held = &slice->message;
  }
  if (!slice) return made;
  made.change = {.kind = Kind::kEndpointSlice, .key = key, .slice = std::move(slice)};
  if (triggered) made.change->triggered = absl::ToChronoTime(*triggered);
  return made;
}

DeferredSlices::Steps& DeferredSlices::StepsOf(const std::string& key) {
  const auto [place, added] = places_.try_emplace(key, slices_.size());
  if (added) slices_.emplace_back(key, Steps());
  return slices_[place->second].second;
}

void DeferredSlices::Add(const std::string& key, std::shared_ptr<const v1::EndpointDelta> delta) {
  Steps& steps = StepsOf(key);
  if (steps.empty() || !steps.back().rejected.empty()) steps.emplace_back();
  steps.back().deltas.push_back(std::move(delta));
}

void DeferredSlices::Reject(const std::string& key, std::string encoded) {
  Steps& steps = StepsOf(key);
  if (steps.empty() || !steps.back().rejected.empty()) steps.emplace_back();
  steps.back().rejected = std::move(encoded);
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
  for (auto& [key, steps] : std::exchange(slices_, {})) {
    if (steps.empty()) continue;
    late.push_back(
        {.kind = Kind::kEndpointSlice,
         .key = key,
         .make = [key = key, steps = std::move(steps), context](const proxy::Store& store) {
           return Make(key, store.FindLatestSlice(key), steps, context);
         }});
  }
  places_.clear();
  return late;
}

}  // namespace svcmap::api
