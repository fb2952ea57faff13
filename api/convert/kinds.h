// Kinds of objects: their names and their fields in messages. Pure functions.
#pragma once

#include <array>
#include <string>
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

// Return null for an unknown kind or field.
const KindInfo* FindKind(v1::Kind kind);
const KindInfo* FindKindOfField(int field);
// Returns the API group of an apiVersion, or "" for the core group.
std::string_view GroupOf(std::string_view api_version);
// Finds a kind of manifests by name and API group.
const KindInfo* FindKind(std::string_view api_version, std::string_view name);

// Returns the metadata of `message`, a v1::Object or v1::Change, or null if it contains no object.
template <typename Message>
const v1::ObjectMeta* FindMetadata(const Message& message) {
  if (message.has_service()) return &message.service().metadata();
  if (message.has_endpoint_slice()) return &message.endpoint_slice().metadata();
  if (message.has_node()) return &message.node().metadata();
  return message.has_service_cidr() ? &message.service_cidr().metadata() : nullptr;
}

// Returns the message of `kind` in `object`, and creates this message if necessary.
google::protobuf::Message& MutableMessage(const KindInfo& kind, v1::Object& object);

}  // namespace svcmap::api
