#include "proxy/state/limits.h"

#include <string>

namespace svcmap::proxy {
namespace {

size_t ObjectCount(const Store& store) {
  return store.service_count() + store.slice_count() + store.nodes().size() +
         store.service_cidrs().size();
}

// Number of a Service's endpoints in one family, in one EndpointSlice (`here`) and in all other
// EndpointSlices (`elsewhere`).
struct EndpointCount {
  size_t here = 0;
  size_t elsewhere = 0;
};

EndpointCount CountEndpoints(const Store& store, const EndpointSlice& slice) {
  EndpointCount count;
  const ServiceEntry* entry = store.Find(slice.service_key);
  if (entry == nullptr) return count;
  const auto held = entry->slices.find(slice.key);
  if (held != entry->slices.end() && (*held)->family == slice.family) {
    count.here = (*held)->endpoints.size();
  }
  count.elsewhere = entry->endpoints[Index(slice.family)] - count.here;
  return count;
}

std::optional<Finding> OverEndpoints(const Store& store, const Change& change, size_t limit) {
  const EndpointSlice& slice = *change.slice;
  const EndpointCount held = CountEndpoints(store, slice);
  const size_t wanted = held.elsewhere + slice.endpoints.size();
  if (wanted <= limit || slice.endpoints.size() <= held.here) return std::nullopt;
  return Finding{.severity = Finding::Severity::kRejected,
                 .kind = change.kind,
                 .key = change.key,
                 .field = "endpoints",
                 .code = FindingCode::kTooMany,
                 .value = std::to_string(wanted),
                 .reason = "all EndpointSlices of Service " + slice.service_key +
                           " together must have at most " + std::to_string(limit) + " " +
                           std::string(FamilyName(slice.family)) +
                           " endpoints (--max-endpoints-per-service)"};
}

std::optional<Finding> OverSlots(const Store& store, const Change& change) {
  const EndpointSlice& slice = *change.slice;
  const ServiceEntry* entry = store.Find(slice.service_key);
  uint64_t here = 0;
  uint64_t elsewhere = 0;
  if (entry != nullptr) {
    const auto held = entry->slices.find(slice.key);
    if (held != entry->slices.end() && (*held)->family == slice.family) here = SlotCount(**held);
    elsewhere = entry->slots[Index(slice.family)] - here;
  }
  const uint64_t desired = elsewhere + SlotCount(slice);
  if (desired <= kMaxPortsTimesEndpoints || SlotCount(slice) <= here) return std::nullopt;
  return Finding{.severity = Finding::Severity::kRejected,
                 .kind = change.kind,
                 .key = change.key,
                 .field = "endpoints",
                 .code = FindingCode::kTooMany,
                 .value = std::to_string(slice.endpoints.size()),
                 .reason = "the sum of ports times endpoints over all EndpointSlices of Service " +
                           slice.service_key + " would be " + std::to_string(desired) + " for " +
                           std::string(FamilyName(slice.family)) +
                           ", which exceeds svcmap's limit of " +
                           std::to_string(kMaxPortsTimesEndpoints)};
}

uint64_t ElementCountOf(const Change& change) {
  if (change.service) return ElementCount(*change.service);
  return change.slice ? ElementCount(*change.slice) : 0;
}

std::optional<Finding> OverElements(const Store& store, const Change& change, uint64_t limit) {
  const uint64_t after = ElementCountOf(change);
  // The new object fits in addition to its stored version.
  if (after == 0 || store.elements() + after <= limit) return std::nullopt;
  const Change held = store.Stored(change.kind, change.key);
  const uint64_t before = ElementCountOf(held);
  const uint64_t total = store.elements() - before + after;
  if (total <= limit || after <= before) return std::nullopt;
  return Finding{
      .severity = held.removal() ? Finding::Severity::kNotStored : Finding::Severity::kRejected,
      .kind = change.kind,
      .key = change.key,
      .code = FindingCode::kLimit,
      .reason = "this object of " + std::to_string(after) + " elements would raise the total to " +
                std::to_string(total) + " elements, more than --max-elements " +
                std::to_string(limit)};
}

const std::string& MessageOf(const Change& change) {
  if (change.service) return change.service->message;
  if (change.slice) return change.slice->message;
  if (change.node) return change.node->message;
  return change.service_cidr->message;
}

std::optional<Finding> OverBytes(const Store& store, const Change& change, uint64_t limit) {
  const uint64_t after = ObjectBytes(change.key, MessageOf(change));
  // The new object fits in addition to its stored version.
  if (store.bytes() + after <= limit) return std::nullopt;
  const std::string* held = store.FindMessage(change.kind, change.key);
  const uint64_t before = held == nullptr ? 0 : ObjectBytes(change.key, *held);
  const uint64_t total = store.bytes() - before + after;
  if (total <= limit || after <= before) return std::nullopt;
  return Finding{
      .severity = held == nullptr ? Finding::Severity::kNotStored : Finding::Severity::kRejected,
      .kind = change.kind,
      .key = change.key,
      .code = FindingCode::kLimit,
      .reason = "this object of " + std::to_string(after) + " bytes would raise the total to " +
                std::to_string(total) + " bytes, more than --max-bytes " + std::to_string(limit)};
}

}  // namespace

std::optional<Finding> OverLimit(const Store& store, const Change& change,
                                 const StateLimits& limits) {
  if (change.removal()) return std::nullopt;
  if (ObjectCount(store) >= limits.objects &&
      store.FindMessage(change.kind, change.key) == nullptr) {
    return Finding{.severity = Finding::Severity::kNotStored,
                   .kind = change.kind,
                   .key = change.key,
                   .code = FindingCode::kLimit,
                   .reason = "the agent already stores --max-objects " +
                             std::to_string(limits.objects) + " objects"};
  }
  if (auto over = OverBytes(store, change, limits.bytes)) return over;
  if (change.slice && !change.slice->service_key.empty()) {
    if (auto over = OverEndpoints(store, change, limits.endpoints_per_service)) return over;
    if (auto over = OverSlots(store, change)) return over;
  }
  return OverElements(store, change, limits.elements);
}

}  // namespace svcmap::proxy
