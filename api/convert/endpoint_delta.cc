#include "api/convert/endpoint_delta.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/convert/encoded_slice.h"
#include "api/convert/fields.h"
#include "api/convert/metadata.h"
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

// Encoded endpoints of a slice, indexed by address. The cost of a change does not depend on the
// size of the slice.
class EndpointList {
 public:
  explicit EndpointList(const SplitEncoding& slice) {
    places_.reserve(static_cast<size_t>(slice.endpoint_count));
    for (EncodedFields endpoints(slice.endpoints); endpoints.Next();) {
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
  std::string encoded(split.before);
  endpoints.AppendTo(encoded);
  encoded += split.after;
  encoded.shrink_to_fit();
  v1::EndpointSlice slice;
  slice.ParseFromString(split.WithoutEndpoints());
  return ConvertEndpointSlice(slice, std::move(encoded), context);
}

}  // namespace svcmap::api
