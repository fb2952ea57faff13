#include "api/convert/endpoint_delta.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/convert/fields.h"
#include "api/convert/metadata.h"
#include "api/convert/quote.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {
namespace {

void CheckAddress(std::string field, const std::string& text, Report& report) {
  if (!IpAddress::Parse(text)) {
    report.Reject(std::move(field), Invalid(Quote(text), kIpAddressDetail));
  }
}

// Returns the canonical form of an address (requirement S-5). Returns `text` unchanged if `text` is
// not an address, because EndpointSlices of addressType FQDN are also stored.
std::string Identity(const std::string& text) {
  const std::optional<IpAddress> address = IpAddress::Parse(text);
  return address ? address->ToString() : text;
}

// Endpoints of a slice, indexed by address. The cost of a change does not depend on the size of the
// slice.
class EndpointList {
 public:
  using Endpoints = google::protobuf::RepeatedPtrField<v1::Endpoint>;

  explicit EndpointList(Endpoints& endpoints) {
    places_.reserve(static_cast<size_t>(endpoints.size()));
    for (v1::Endpoint& endpoint : endpoints) Append(std::move(endpoint));
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
    Append(endpoint);
  }

  void MoveTo(Endpoints& endpoints) {
    endpoints.Clear();
    for (std::optional<v1::Endpoint>& endpoint : places_) {
      if (endpoint) *endpoints.Add() = *std::move(endpoint);
    }
  }

 private:
  void Append(v1::Endpoint endpoint) {
    if (endpoint.addresses_size() > 0) {
      by_address_[Identity(endpoint.addresses(0))].push_back(places_.size());
    }
    places_.emplace_back(std::move(endpoint));
  }

  std::vector<std::optional<v1::Endpoint>> places_;  // Removed endpoints are nullopt.
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

Converted<proxy::EndpointSlice> ConvertDeltas(
    const std::string& key, const std::string* held,
    const std::vector<std::shared_ptr<const v1::EndpointDelta>>& deltas,
    const ConvertContext& context) {
  v1::EndpointSlice slice;
  if (held == nullptr || !slice.ParseFromString(*held)) {
    return {
        nullptr,
        {{.severity = proxy::Finding::Severity::kNotStored,
          .kind = proxy::Kind::kEndpointSlice,
          .key = key,
          .code = proxy::FindingCode::kNotStored,
          .reason = "the EndpointSlice is not stored; send the complete object before deltas"}}};
  }
  EndpointList endpoints(*slice.mutable_endpoints());
  for (const auto& delta : deltas) {
    for (const std::string& address : delta->remove()) endpoints.Remove(address);
    for (const v1::Endpoint& endpoint : delta->upsert()) endpoints.Put(endpoint);
  }
  endpoints.MoveTo(*slice.mutable_endpoints());
  return ConvertEndpointSlice(slice, context);
}

}  // namespace svcmap::api
