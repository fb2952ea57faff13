#include "api/convert/encoded_slice.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/convert/field_reader.h"
#include "api/convert/fields.h"
#include "api/convert/projection.h"
#include "api/convert/quote.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {
namespace {

void CheckAddress(std::string field, const std::string& text, Report& report) {
  if (!IpAddress::Parse(text)) {
    report.Reject(std::move(field), Invalid(Quote(text), IpAddressDetail(text)));
  }
}

// Returns equal strings for equal addresses (requirement S-5), and for equal text that is not an
// address, because EndpointSlices of addressType FQDN are also stored.
std::string Identity(std::string_view text) {
  const std::optional<IpAddress> address = IpAddress::Parse(text);
  // An address has at most 16 bytes.
  if (!address) return std::string(17, ' ').append(text);
  const std::span<const uint8_t> bytes = address->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The conditions of an endpoint as received. Absent conditions differ from their defaults.
auto EncodedConditions(const EncodedEndpoint& endpoint) {
  return std::tuple(endpoint.ready, endpoint.serving, endpoint.terminating);
}

// Appends the stored endpoint with the conditions of `received`.
void AppendWithConditions(const EncodedEndpoint& stored, const EncodedEndpoint& received,
                          std::string& slice) {
  constexpr uint32_t kTag = v1::EndpointSlice::kEndpointsFieldNumber << 3 | 2;
  if (EncodedConditions(stored) == EncodedConditions(received)) {
    return AppendField(kTag, stored.bytes, slice);
  }
  v1::Endpoint endpoint;
  endpoint.ParseFromArray(stored.bytes.data(), static_cast<int>(stored.bytes.size()));
  endpoint.clear_conditions();
  v1::EndpointConditions conditions;
  if (received.ready) conditions.set_ready(*received.ready);
  if (received.serving) conditions.set_serving(*received.serving);
  if (received.terminating) conditions.set_terminating(true);
  if (conditions.ByteSizeLong() > 0) *endpoint.mutable_conditions() = std::move(conditions);
  AppendField(kTag, Serialize(endpoint), slice);
}

bool SameService(const v1::EndpointSlice& a, const v1::EndpointSlice& b) {
  return ServiceNameOf(a.metadata()) == ServiceNameOf(b.metadata());
}

v1::EndpointSlice ParseWithoutEndpoints(const SplitEncoding& split) {
  v1::EndpointSlice slice;
  slice.ParseFromString(split.WithoutEndpoints());
  return slice;
}

// Encoded endpoints of a slice, indexed by address. The cost of a change does not depend on the
// size of the slice.
class EndpointList {
 public:
  explicit EndpointList(const SplitEncoding& slice) {
    places_.reserve(static_cast<size_t>(slice.endpoint_count));
    for (FieldReader endpoints(slice.endpoints); endpoints.Next();) {
      const EncodedEndpoint endpoint = ReadEndpoint(endpoints.bytes());
      if (endpoint.address_count > 0) Index(endpoint.address);
      places_.emplace_back(endpoint.bytes);
    }
  }

  // Removes all endpoints whose first address is `address`.
  void Remove(const std::string& address) {
    const auto found = by_address_.find(Identity(address));
    if (found == by_address_.end()) return;
    for (const size_t place : found->second) places_[place].reset();
    by_address_.erase(found);
  }

  void Put(const v1::Endpoint& endpoint) {
    Remove(endpoint.addresses(0));
    Index(endpoint.addresses(0));
    places_.emplace_back(added_.emplace_back(Serialize(endpoint)));
  }

  void AppendTo(std::string& slice) const {
    constexpr uint32_t kTag = v1::EndpointSlice::kEndpointsFieldNumber << 3 | 2;
    for (const std::optional<std::string_view>& endpoint : places_) {
      if (endpoint) AppendField(kTag, *endpoint, slice);
    }
  }

 private:
  // The endpoint at the next place has this address.
  void Index(std::string_view address) { by_address_[Identity(address)].push_back(places_.size()); }

  std::vector<std::optional<std::string_view>> places_;  // Removed endpoints are nullopt.
  std::deque<std::string> added_;                        // Encodings that `places_` refers to.
  absl::flat_hash_map<std::string, absl::InlinedVector<size_t, 1>> by_address_;
};

}  // namespace

void CheckDelta(const v1::EndpointDelta& delta, Report& report) {
  CheckNames(proxy::Kind::kEndpointSlice, delta.namespace_(), delta.name(), "", report);
  for (int i = 0; i < delta.remove_size() && !report.rejected(); ++i) {
    CheckAddress(absl::StrCat("remove[", i, "]"), delta.remove(i), report);
  }
  for (int i = 0; i < delta.upsert_size() && !report.rejected(); ++i) {
    const std::string field = absl::StrCat("upsert[", i, "].addresses");
    if (delta.upsert(i).addresses_size() == 0) {
      report.Reject(field, Required("the first address identifies the endpoint"));
    } else {
      CheckAddress(field + "[0]", delta.upsert(i).addresses(0), report);
    }
  }
}

void KeepRemovals(v1::EndpointDelta& delta) {
  Report report(proxy::Kind::kEndpointSlice, "");
  CheckNames(proxy::Kind::kEndpointSlice, delta.namespace_(), delta.name(), "", report);
  v1::EndpointDelta removals;
  for (const std::string& address : delta.remove()) {
    if (!report.rejected() && IpAddress::Parse(address)) removals.add_remove(address);
  }
  removals.set_namespace_(delta.namespace_());
  removals.set_name(delta.name());
  delta = std::move(removals);
}

Converted<proxy::EndpointSlice> ConvertDeltas(
    const std::string& key, const std::string* held,
    const std::vector<std::shared_ptr<const v1::EndpointDelta>>& deltas,
    const ConvertContext& context) {
  if (held == nullptr) {
    return {
        nullptr,
        {{.severity = proxy::Finding::Severity::kNotStored,
          .kind = proxy::Kind::kEndpointSlice,
          .key = key,
          .code = proxy::FindingCode::kNotStored,
          .reason = "the EndpointSlice is not stored; send the complete object before deltas"}}};
  }
  const SplitEncoding split = SplitSlice(*held);
  EndpointList endpoints(split);
  for (const auto& delta : deltas) {
    for (const std::string& address : delta->remove()) endpoints.Remove(address);
    for (const v1::Endpoint& endpoint : delta->upsert()) endpoints.Put(endpoint);
  }
  const auto encode = [&] {
    std::string encoded(split.before);
    endpoints.AppendTo(encoded);
    encoded += split.after;
    encoded.shrink_to_fit();
    return encoded;
  };
  Converted<proxy::EndpointSlice> converted =
      ConvertEndpointSlice(ParseWithoutEndpoints(split), encode(), context);
  if (!converted.value) converted.value = ConvertDepartures(*held, encode(), context);
  return converted;
}

std::shared_ptr<const proxy::EndpointSlice> ConvertDepartures(std::string_view held,
                                                              std::string_view rejected,
                                                              const ConvertContext& context) {
  const SplitEncoding stored = SplitSlice(held), received = SplitSlice(rejected);
  const v1::EndpointSlice slice = ParseWithoutEndpoints(stored);
  // By address. Of several endpoints with an address, the first one that is not terminating.
  absl::flat_hash_map<std::string, EncodedEndpoint> listed;
  if (SameService(slice, ParseWithoutEndpoints(received))) {
    for (FieldReader endpoints(received.endpoints); endpoints.Next();) {
      const EncodedEndpoint endpoint = ReadEndpoint(endpoints.bytes());
      if (endpoint.address_count == 0) continue;
      const auto [found, added] = listed.try_emplace(Identity(endpoint.address), endpoint);
      if (!added && found->second.terminating) found->second = endpoint;
    }
  }
  std::string encoded(stored.before);
  for (FieldReader endpoints(stored.endpoints); endpoints.Next();) {
    const EncodedEndpoint endpoint = ReadEndpoint(endpoints.bytes());
    if (endpoint.address_count == 0) continue;
    const auto found = listed.find(Identity(endpoint.address));
    if (found != listed.end()) AppendWithConditions(endpoint, found->second, encoded);
  }
  encoded += stored.after;
  encoded.shrink_to_fit();
  return ConvertEndpointSlice(slice, std::move(encoded), context).value;
}

}  // namespace svcmap::api
