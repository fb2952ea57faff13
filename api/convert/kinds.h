// Kinds of objects: their names and their fields in messages. Pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "google/protobuf/message.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

struct KindInfo {
  proxy::Kind kind;
  v1::Kind proto;
  int field;                     // In v1::Object, v1::Change and the messages of envelope.v1.
  std::string_view name;         // "EndpointSlice"
  std::string_view singular;     // "endpointslice"
  std::string_view plural;       // "endpointslices"
  std::string_view short_name;   // "eps"
  std::string_view group;        // "discovery.k8s.io", or empty for the core group.
  std::string_view api_version;  // "discovery.k8s.io/v1"
  bool namespaced;
};

// All kinds, in the order of proxy::Kind.
inline constexpr std::array<KindInfo, 4> kKinds = {{
    {proxy::Kind::kService, v1::KIND_SERVICE, v1::Object::kServiceFieldNumber, "Service", "service",
     "services", "svc", "", "v1", true},
    {proxy::Kind::kEndpointSlice, v1::KIND_ENDPOINT_SLICE, v1::Object::kEndpointSliceFieldNumber,
     "EndpointSlice", "endpointslice", "endpointslices", "eps", "discovery.k8s.io",
     "discovery.k8s.io/v1", true},
    {proxy::Kind::kNode, v1::KIND_NODE, v1::Object::kNodeFieldNumber, "Node", "node", "nodes", "no",
     "", "v1", false},
    {proxy::Kind::kServiceCidr, v1::KIND_SERVICE_CIDR, v1::Object::kServiceCidrFieldNumber,
     "ServiceCIDR", "servicecidr", "servicecidrs", "cidr", "networking.k8s.io",
     "networking.k8s.io/v1", false},
}};

constexpr const KindInfo& InfoOf(proxy::Kind kind) { return kKinds[static_cast<size_t>(kind)]; }

// Returns null if no kind matches.
template <typename Matches>
const KindInfo* FindKindIf(Matches matches) {
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(), matches);
  return found == kKinds.end() ? nullptr : found;
}

inline const KindInfo* FindKind(v1::Kind kind) {
  return FindKindIf([kind](const KindInfo& info) { return info.proto == kind; });
}
inline const KindInfo* FindKindOfField(int field) {
  return FindKindIf([field](const KindInfo& info) { return info.field == field; });
}
// Returns the API group of an apiVersion, or "" for the core group.
inline std::string_view GroupOf(std::string_view api_version) {
  const size_t slash = api_version.find('/');
  return slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
}
// Finds a kind of manifests by name and API group.
inline const KindInfo* FindKind(std::string_view api_version, std::string_view name) {
  const std::string_view group = GroupOf(api_version);
  return FindKindIf([&](const KindInfo& info) { return info.name == name && info.group == group; });
}

// Returns the metadata of `message`, a v1::Object or v1::Change, or null if it contains no object.
template <typename Message>
const v1::ObjectMeta* FindMetadata(const Message& message) {
  if (message.has_service()) return &message.service().metadata();
  if (message.has_endpoint_slice()) return &message.endpoint_slice().metadata();
  if (message.has_node()) return &message.node().metadata();
  return message.has_service_cidr() ? &message.service_cidr().metadata() : nullptr;
}

// Returns the message of `kind` in `object`, and creates this message if necessary.
inline google::protobuf::Message& MutableMessage(const KindInfo& kind, v1::Object& object) {
  const auto* field = v1::Object::descriptor()->FindFieldByNumber(kind.field);
  return *v1::Object::GetReflection()->MutableMessage(&object, field);
}

}  // namespace svcmap::api
