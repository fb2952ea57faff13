#include "proxy/state/limits.h"

#include <string>

namespace svcmap::proxy {
namespace {

size_t ObjectCount(const Store& store) {
  return store.service_count() + store.slices().size() + store.nodes().size() +
         store.service_cidrs().size();
}

// Checks the totals over all EndpointSlices of the Service in one family.
std::optional<Finding> OverServiceTotals(const Store& store, const Change& change, size_t limit) {
  const EndpointSlice& slice = *change.slice;
  const std::string family(FamilyName(slice.family));
  size_t endpoints = slice.endpoints.size(), old_endpoints = 0;
  uint64_t slots = SlotCount(slice), old_slots = 0;
  if (const ServiceEntry* entry = store.Find(slice.service_key)) {
    const auto held = entry->slices.find(slice.key);
    if (held != entry->slices.end() && (*held)->family == slice.family) {
      old_endpoints = (*held)->endpoints.size();
      old_slots = SlotCount(**held);
    }
    endpoints += entry->endpoints[Index(slice.family)] - old_endpoints;
    slots += entry->slots[Index(slice.family)] - old_slots;
  }
  Finding finding{.severity = Finding::Severity::kRejected,
                  .kind = change.kind,
                  .key = change.key,
                  .field = "endpoints",
                  .code = FindingCode::kTooMany};
  if (endpoints > limit && slice.endpoints.size() > old_endpoints) {
    finding.value = std::to_string(endpoints);
    finding.reason = "all EndpointSlices of Service " + slice.service_key +
                     " together must have at most " + std::to_string(limit) + " " + family +
                     " endpoints (--max-endpoints-per-service)";
    return finding;
  }
  if (slots > kMaxPortsTimesEndpoints && SlotCount(slice) > old_slots) {
    finding.value = std::to_string(slice.endpoints.size());
    finding.reason = "the sum of ports times endpoints over all EndpointSlices of Service " +
                     slice.service_key + " would be " + std::to_string(slots) + " for " + family +
                     ", which exceeds svcmap's limit of " + std::to_string(kMaxPortsTimesEndpoints);
    return finding;
  }
  return std::nullopt;
}

uint64_t ElementCountOf(const Change& change) {
  if (change.service) return ElementCount(*change.service);
  return change.slice ? ElementCount(*change.slice) : 0;
}

uint64_t BytesOf(const Change& change) {
  return change.removal() ? 0 : ObjectBytes(change.key, *change.message());
}

// Checks a total over all objects. `before` and `after` are the parts of the stored and of the new
// version of the object. `unit`: "bytes" or "elements".
std::optional<Finding> OverTotal(const Change& change, const Change& stored, uint64_t total,
                                 uint64_t before, uint64_t after, uint64_t limit,
                                 const std::string& unit) {
  total = total - before + after;
  if (total <= limit || after <= before) return std::nullopt;
  return Finding{
      .severity = stored.removal() ? Finding::Severity::kNotStored : Finding::Severity::kRejected,
      .kind = change.kind,
      .key = change.key,
      .code = FindingCode::kLimit,
      .reason = "this object of " + std::to_string(after) + " " + unit +
                " would raise the total to " + std::to_string(total) + " " + unit +
                ", more than --max-" + unit + " " + std::to_string(limit)};
}

}  // namespace

std::optional<Finding> OverLimit(const Store& store, const Change& change,
                                 const StateLimits& limits) {
  if (change.removal()) return std::nullopt;
  const Change stored = store.Stored(change.kind, change.key);
  if (ObjectCount(store) >= limits.objects && stored.removal()) {
    return Finding{.severity = Finding::Severity::kNotStored,
                   .kind = change.kind,
                   .key = change.key,
                   .code = FindingCode::kLimit,
                   .reason = "the agent already stores --max-objects " +
                             std::to_string(limits.objects) + " objects"};
  }
  if (auto over = OverTotal(change, stored, store.bytes(), BytesOf(stored), BytesOf(change),
                            limits.bytes, "bytes")) {
    return over;
  }
  if (change.slice && !change.slice->service_key.empty()) {
    if (auto over = OverServiceTotals(store, change, limits.endpoints_per_service)) return over;
  }
  return OverTotal(change, stored, store.elements(), ElementCountOf(stored), ElementCountOf(change),
                   limits.elements, "elements");
}

}  // namespace svcmap::proxy
