#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/convert/encoded_slice.h"
#include "api/convert/field_reader.h"
#include "api/convert/fields.h"
#include "api/convert/projection.h"
#include "api/convert/quote.h"
#include "api/convert/service_parts.h"

namespace svcmap::api {
namespace {

constexpr char kHeadlessLabel[] = "service.kubernetes.io/headless";

// Limits of the Kubernetes API server for one EndpointSlice, in
// pkg/apis/discovery/validation/validation.go (docs/bad-input.md, Limits).
constexpr int kMaxEndpoints = 1000;
constexpr int kMaxPorts = 20'000;
constexpr int kMaxAddresses = 100;
// Maximum number of zones, and of nodes, in the hints of one endpoint.
constexpr int kMaxHints = 8;

// `field` returns the path of the list. `field` is called only for an error, because there can be
// millions of endpoints.
bool WithinLimit(absl::FunctionRef<std::string()> field, int count, int limit, const char* remedy,
                 Report& report) {
  if (count <= limit) return true;
  report.Reject(field(), TooMany(count, limit, remedy));
  return false;
}

// Returns the key of the Service to which the slice belongs (requirement S-18). Returns an empty
// key and adds a warning if the slice belongs to no Service.
std::string ServiceKey(const v1::ObjectMeta& metadata, Report& report) {
  const auto field = [] { return absl::StrCat("metadata.labels[\"", kServiceNameLabel, "\"]"); };
  const std::string service = ServiceNameOf(metadata);
  if (service.empty()) {
    report.Warn(field(), Required("the EndpointSlice belongs to no Service and is not used"));
    return "";
  }
  if (!IsDnsLabel(service)) {
    report.Warn(field(), Invalid(Quote(service),
                                 "must be the name of a Service; the EndpointSlice is not used"));
    return "";
  }
  return absl::StrCat(metadata.namespace_(), "/", service);
}

// Ignores ports without a name or number (requirement S-20), and numbers that are out of range,
// because the Kubernetes API server does not check the numbers. Rejects duplicate port names, as
// the API server does.
void ConvertPorts(const v1::EndpointSlice& message, proxy::EndpointSlice& slice, Report& report) {
  if (!WithinLimit([] { return "ports"; }, message.ports_size(), kMaxPorts,
                   "use more EndpointSlices", report)) {
    return;
  }
  absl::flat_hash_map<std::string, int> names;
  for (int i = 0; i < message.ports_size() && !report.rejected(); ++i) {
    const v1::EndpointPort& port = message.ports(i);
    const auto field = [i](const char* name) { return absl::StrCat("ports[", i, "].", name); };
    const auto protocol = ParseProtocol(port.protocol());
    if (!protocol) {
      report.Reject(field("protocol"), UnsupportedProtocol(port.protocol()));
    } else if (!port.name().empty() && !IsDnsLabel(port.name())) {
      report.Reject(field("name"), Invalid(Quote(port.name()), kLabelDetail));
    } else if (!port.has_name()) {
      report.Warn(field("name"),
                  Required("the port is ignored; the name of an unnamed port is \"\""));
    } else if (const auto [seen, added] = names.emplace(port.name(), i); !added) {
      report.Reject(
          field("name"),
          Duplicate(Quote(port.name()), absl::StrCat("already used by ports[", seen->second, "]")));
    } else if (port.port() == 0) {
      report.Warn(field("port"), Required("the port is ignored"));
    } else if (port.port() < 1 || port.port() > 65535) {
      report.Warn(field("port"), Ignored(OutOfRange(port.port(), 1, 65535)));
    } else {
      slice.ports.push_back({port.name(), *protocol, static_cast<uint16_t>(port.port())});
    }
  }
}

// Checks all addresses and returns the first address. Only the first address is used (requirement
// S-22). Returns nullopt if there is no address or the object is rejected.
std::optional<IpAddress> FirstAddress(const EncodedEndpoint& endpoint, int index, Family family,
                                      Report& report) {
  const auto field = [index] { return absl::StrCat("endpoints[", index, "].addresses"); };
  if (endpoint.address_count == 0) {
    report.Warn(field(), Required("the endpoint is ignored"));
    return std::nullopt;
  }
  if (!WithinLimit(field, endpoint.address_count, kMaxAddresses, "only the first address is used",
                   report)) {
    return std::nullopt;
  }
  std::optional<IpAddress> first;
  FieldReader addresses(endpoint.bytes);
  for (int i = 0; i < endpoint.address_count && addresses.Next(); ++i) {
    const std::string_view text = addresses.bytes();
    const auto address = IpAddress::Parse(text);
    std::optional<std::string> reason;
    if (!address) {
      reason = IpAddressDetail(text);
    } else if (address->family() != family) {
      const std::string name(FamilyName(family));
      reason = absl::StrCat("must be an ", name, " address because addressType is ", Quote(name));
    } else {
      reason = SpecialAddress(*address);
    }
    if (reason) {
      report.Reject(absl::StrCat(field(), "[", i, "]"), Invalid(Quote(text), *std::move(reason)));
      return std::nullopt;
    }
    if (i > 0) continue;
    first = address;
    if (HasLeadingZeros(text)) {
      WarnIfAmbiguous(absl::StrCat(field(), "[0]"), text, *address, report);
    }
  }
  return first;
}

// Applies the defaults of absent conditions (requirement S-24).
proxy::EndpointConditions Conditions(const EncodedEndpoint& endpoint) {
  return {.ready = endpoint.ready.value_or(true),
          .serving = endpoint.serving.value_or(true),
          .terminating = endpoint.terminating};
}

// Returns whether the endpoint is on this node (requirement S-23).
bool IsLocal(const EncodedEndpoint& endpoint, const ConvertContext& context) {
  return !context.node_name.empty() && endpoint.node_name == std::string_view(context.node_name);
}

// Converts the hints of an endpoint (requirement S-25). Sorts the names and removes duplicates so
// that equivalent hints are equal.
proxy::EndpointHints Hints(const v1::EndpointHints& message) {
  const auto sorted = [](const auto& entries) {
    std::vector<std::string> names;
    for (const auto& entry : entries) names.push_back(entry.name());
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  };
  return {.zones = sorted(message.for_zones()), .nodes = sorted(message.for_nodes())};
}

v1::EndpointHints ParseHints(std::string_view encoded) {
  v1::EndpointHints hints;
  hints.ParseFromArray(encoded.data(), static_cast<int>(encoded.size()));
  return hints;
}

void CheckHints(const EncodedEndpoint& endpoint, int index, Report& report) {
  if (endpoint.hints.empty()) return;
  const v1::EndpointHints hints = ParseHints(endpoint.hints);
  constexpr char kRemedy[] = "remove some";
  const auto field = [index](const char* name) {
    return [index, name] { return absl::StrCat("endpoints[", index, "].hints.", name); };
  };
  WithinLimit(field("forZones"), hints.for_zones_size(), kMaxHints, kRemedy, report);
  WithinLimit(field("forNodes"), hints.for_nodes_size(), kMaxHints, kRemedy, report);
}

void CheckWeight(const EncodedEndpoint& endpoint, int index, Report& report) {
  const uint32_t weight = endpoint.weight.value_or(0);
  if (weight <= proxy::kMaxWeight) return;
  report.Reject(absl::StrCat("endpoints[", index, "].weight"),
                OutOfRange(weight, 0, proxy::kMaxWeight));
}

// Stores equal hints of many endpoints only once.
class HintTable {
 public:
  explicit HintTable(std::vector<proxy::EndpointHints>& hints) : hints_(hints) {}

  // Returns the value to store in Endpoint::hints.
  uint16_t Add(std::string_view encoded) {
    if (encoded.empty()) return 0;
    proxy::EndpointHints hints = Hints(ParseHints(encoded));
    if (hints.zones.empty() && hints.nodes.empty()) return 0;
    const auto next = static_cast<uint16_t>(hints_.size() + 1);
    const auto [held, added] = places_.try_emplace(std::pair(hints.zones, hints.nodes), next);
    if (added) hints_.push_back(std::move(hints));
    return held->second;
  }

 private:
  using Names = std::vector<std::string>;

  std::vector<proxy::EndpointHints>& hints_;
  absl::flat_hash_map<std::pair<Names, Names>, uint16_t> places_;
};

// Finds the endpoints of a slice by address.
class AddressPlaces {
 public:
  // At most `count` endpoints are added.
  AddressPlaces(const std::vector<proxy::Endpoint>& endpoints, size_t count)
      : endpoints_(endpoints), few_(count <= kFew) {
    if (!few_) places_.reserve(count);
  }

  // Returns the index of the endpoint with the address. If there is none, returns the number of
  // endpoints, and the caller must append an endpoint with the address.
  size_t FindOrAdd(const IpAddress& address) {
    if (!few_) return places_.try_emplace(address, endpoints_.size()).first->second;
    const auto found = std::ranges::find(endpoints_, address, &proxy::Endpoint::address);
    return static_cast<size_t>(found - endpoints_.begin());
  }

 private:
  static constexpr size_t kFew = 16;  // Up to this number, a linear search is faster.

  const std::vector<proxy::Endpoint>& endpoints_;
  const bool few_;
  absl::flat_hash_map<IpAddress, size_t> places_;
};

// If several endpoints have the same address, uses the first endpoint that is not terminating, or
// the first endpoint if all endpoints are terminating. Requirement S-26 defines the same rule for
// endpoints of several slices.
void ConvertEndpoints(std::string_view encoded, const ConvertContext& context,
                      uint32_t default_weight, proxy::EndpointSlice& slice, Report& report) {
  const SplitEncoding split = SplitSlice(encoded);
  if (!WithinLimit([] { return "endpoints"; }, split.endpoint_count, kMaxEndpoints,
                   "use more EndpointSlices", report)) {
    return;
  }
  struct Source {
    int index;
    std::string_view hints;
  };
  const auto count = static_cast<size_t>(split.endpoint_count);
  std::vector<Source> sources;  // One for each element of slice.endpoints.
  sources.reserve(count);
  slice.endpoints.reserve(count);
  AddressPlaces places(slice.endpoints, count);
  FieldReader endpoints(split.endpoints);
  for (int i = 0; endpoints.Next() && !report.rejected(); ++i) {
    const EncodedEndpoint endpoint = ReadEndpoint(endpoints.bytes());
    const auto address = FirstAddress(endpoint, i, slice.family, report);
    CheckHints(endpoint, i, report);
    CheckWeight(endpoint, i, report);
    if (!address) continue;
    const proxy::Endpoint converted = {
        *address, Conditions(endpoint), IsLocal(endpoint, context),
        /*hints=*/0, static_cast<uint16_t>(endpoint.weight.value_or(default_weight))};
    const size_t place = places.FindOrAdd(*address);
    if (place == sources.size()) {
      slice.endpoints.push_back(converted);
      sources.push_back({i, endpoint.hints});
      continue;
    }
    proxy::Endpoint& other = slice.endpoints[place];
    Source& source = sources[place];
    report.Warn(
        absl::StrCat("endpoints[", i, "].addresses[0]"),
        Duplicate(Quote(endpoint.address), absl::StrCat("already used by endpoints[", source.index,
                                                        "]; the address is used only once")));
    if (other.conditions.terminating && !endpoint.terminating) {
      other = converted;
      source = {i, endpoint.hints};
    }
  }
  if (report.rejected()) return;
  HintTable hints(slice.hints);
  for (size_t i = 0; i < sources.size(); ++i) {
    slice.endpoints[i].hints = hints.Add(sources[i].hints);
  }
}

}  // namespace

Converted<proxy::EndpointSlice> ConvertEndpointSlice(const v1::EndpointSlice& message,
                                                     std::string encoded,
                                                     const ConvertContext& context) {
  Report report = ReportFor(proxy::Kind::kEndpointSlice, message.metadata());
  auto slice = std::make_shared<proxy::EndpointSlice>();
  slice->key = report.key();
  const std::string& type = message.address_type();
  if (message.metadata().labels().contains(kHeadlessLabel)) {
    // Requirement S-17: the slice is stored but not used, so its other fields are not checked.
  } else if (type == "FQDN") {
    // Requirement S-19: slices with FQDN addresses are stored but not used.
    report.Warn("addressType",
                {proxy::FindingCode::kUnsupported, Quote(type), "the EndpointSlice is not used"});
  } else if (type != "IPv4" && type != "IPv6") {
    report.Reject("addressType",
                  type.empty() ? Required("") : Unsupported(type, {"IPv4", "IPv6", "FQDN"}));
  } else {
    slice->family = type == "IPv4" ? Family::kIpv4 : Family::kIpv6;
    slice->service_key = ServiceKey(message.metadata(), report);
    ConvertPorts(message, *slice, report);
    ConvertEndpoints(encoded, context, DefaultWeight(message.metadata(), report), *slice, report);
  }
  slice->message = std::move(encoded);
  return Finish(std::move(slice), report);
}

}  // namespace svcmap::api
